package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
)

// An empty store shows how to push a first job, and the first job comes without a reload.
func (b *browser) testEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	p := b.open(t, desk, r.addr, "")
	p.sees("No topics yet")
	p.sees("curl http://" + r.addr + "/push")
	p.sees("Replicas alive: 1")
	p.sees("live")
	p.shot("empty")
	value[bool](p, "window.same = true")
	r.push(client.Job{Topic: "mail", ID: "first", Delay: "1h"})
	p.holds(`document.querySelector("table.topics tbody th")?.innerText === "mail"`)
	if !value[bool](p, "window.same === true") {
		t.Error("the page was loaded anew")
	}
	r.ask("finish", "first")
	p.sees("No topics yet")
}

// number gives the expression of a topic's figure in the table.
func number(topic, label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("table.topics tbody tr")]
		.find((row) => row.querySelector("th").innerText === %q)?.querySelector('[data-label=%q]').innerText`, topic, label)
}

// The topics with their figures, filtered and paged.
func (b *browser) testTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for i := range 60 {
		r.push(client.Job{Topic: fmt.Sprintf("tenant-%02d.mail", i), Delay: "1h"})
	}
	r.push(
		client.Job{Topic: "mail", ID: "late", Delay: "1h"}, client.Job{Topic: "mail", ID: "later", Delay: "2h"},
		client.Job{Topic: "mail.eu", Delay: "1h"}, client.Job{Topic: "mailing", Delay: "1h"},
		client.Job{Topic: "unheard", ID: "waits"}, client.Job{Topic: "worked", TTR: "1h"},
	)
	r.bury("no good", "late")
	r.work("worked", func(client.Delivery) []byte { return nil })
	p := b.open(t, desk, r.addr, "")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 50`)
	p.sees("Page 1")
	first := value[string](p, `document.querySelector("table.topics tbody th").innerText`)
	p.button("Next")
	p.sees("Page 2")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 15`)
	p.click("table.topics tbody th a") // and back again to where it was
	p.holds(`document.querySelector("h1").innerText.startsWith("Topic ")`)
	value[chromeNull](p, "history.back()")
	p.sees("Page 2")
	p.button("Previous")
	p.sees("Page 1")
	p.holds(fmt.Sprintf(`document.querySelector("table.topics tbody th").innerText === %q`, first))

	for _, next := range []string{"hour", "day", "minute"} {
		p.button(next)
		p.sees("Due in the next " + next)
		p.holds(`document.querySelectorAll(".plot canvas").length === 3`)
	}
	p.types("#filter", "mail")
	p.holds(`[...document.querySelectorAll("table.topics tbody th")].map((c) => c.innerText).sort().join() === "mail,mail.eu"`)
	p.holds(number("mail", "Delayed") + ` === "1"`)
	p.holds(number("mail", "Dead") + ` === "1"`)
	p.types("#filter", "*.mail")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 50`)
	p.types("#filter", "nothing.like.it")
	p.sees("No topic matches.")
	p.types("#filter", "a>")
	p.sees("Refused:")
	p.expect("400")
	p.types("#filter", "unheard")
	p.sees("nobody listens")
	p.holds(number("unheard", "Ready") + ` === "1"`)
	p.types("#filter", "worked")
	p.holds(number("worked", "In flight") + ` === "1"`)
	p.sees("listening")
}

// chromeNull is the value of what has none.
type chromeNull = *struct{}

// A topic's page follows what happens to it.
func (b *browser) testTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.push(client.Job{Topic: "mail", ID: "soon", Delay: "1h"})
	p := b.open(t, desk, r.addr, "#/topics/mail")
	p.sees("Topic mail")
	p.sees("soon")
	r.work("mail", func(client.Delivery) []byte { return nil })
	r.push(client.Job{Topic: "mail", ID: "now", TTR: "1h"})
	p.holds(`document.querySelector("#state-inflight small")?.innerText === "1"`)
	p.click("#state-inflight")
	p.holds(`document.querySelector("table.jobs tbody th")?.innerText === "now"`)
	p.sees("TTR ends")
	r.ask("finish", "now")
	p.sees("No in flight jobs.")
	p.click("#state-dead")
	p.sees("No dead jobs.")
	p.holds(`document.querySelectorAll(".plot").length === 2`)
}

// All states and the history over all topics; a job is found by its id.
func (b *browser) testJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for i := range 60 {
		r.push(client.Job{Topic: "mail", ID: fmt.Sprintf("job-%02d", i), Delay: client.Value(fmt.Sprintf("%ds", 3600+i))})
	}
	r.push(client.Job{Topic: "other", ID: "one of another topic", Delay: "30m"}, client.Job{Topic: "other", ID: "ready"})
	p := b.open(t, desk, r.addr, "#/jobs")
	p.holds(`document.querySelectorAll("table.jobs tbody tr").length >= 50`)
	p.holds(`document.querySelector("table.jobs tbody th").innerText === "one of another topic"`)
	p.button("Next")
	p.sees("job-59")
	p.types("#filter", "other\r")
	p.holds(`document.querySelectorAll("table.jobs tbody tr").length === 1`)
	p.click("#state-ready")
	p.holds(`document.querySelector("table.jobs tbody th")?.innerText === "ready"`)
	p.types("#filter", "\b\r")
	p.sees("name a topic above")

	p.types("#find", "job-07\r")
	p.holds(`document.querySelector("h1").innerText.includes("job-07")`)
	p.holds(`document.activeElement === document.querySelector("h1")`)
	p.sees("Due the first time")
	p.types("#find", "job-99\r")
	p.expect("404")
	p.sees("There is no such job")
}

// A job's page tells its history, and when it is gone.
func (b *browser) testJobHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	tries := make(chan struct{}, 10)
	r.work("flaky", func(client.Delivery) []byte {
		tries <- struct{}{}
		return []byte(`-NAK {"delay": 3600000000000}`)
	})
	r.push(client.Job{Topic: "flaky", ID: "again", MaxAttempts: "5", Backoff: []client.Value{"1s", "1m"}})
	select {
	case <-tries:
	case <-time.After(patience):
		t.Fatal("no delivery")
	}
	p := b.open(t, desk, r.addr, "#/jobs/again")
	p.sees("Delivered once")
	p.sees("1 of 5")
	p.sees("Due again")
	p.sees("1 s, 1 min")
	r.bury("gave up", "again")
	p.sees("Dead: buried: gave up")
	r.ask("finish", "again")
	p.expect("404")
	p.sees("The job is gone since")
	p.sees("Dead: buried: gave up")
}
