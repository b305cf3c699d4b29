package dashboard_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

func selectOption(selector, option string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
			const field = document.querySelector(%q);
			field.value = %q;
			field.dispatchEvent(new InputEvent("input", { bubbles: true }));
		}`, selector, option)))
		return err
	})
}

// busy fills an installation with what one meets, and keeps it going until the test ends.
func busy(t *testing.T, r *rig) {
	t.Helper()
	topics := []string{"mail", "mail.eu", "sms", "invoice.created", "image.resize", "webhook.out"}
	for _, topic := range topics {
		r.work(topic, finish)
	}
	r.work("slow", func(client.Delivery) []byte { return nil })
	for i := range 40 {
		r.push(
			client.Job{Topic: "slow", ID: "slow-" + strconv.Itoa(i), TTR: "1h"},
			client.Job{Topic: "report.nightly", Delay: client.Value(strconv.Itoa(30*i + 5))},
			client.Job{Topic: "nobody.listens", ID: "unheard-" + strconv.Itoa(i)},
			client.Job{Topic: "mail", Delay: client.Value(strconv.Itoa(i) + "h")},
		)
	}
	for i := range 7 {
		id := "order-" + strconv.Itoa(1000+i)
		r.push(client.Job{
			Topic: "billing.charge", ID: id, Delay: "1h", MaxAttempts: "5", Body: []byte(`{"customer":` + strconv.Itoa(i) + `,"cents":1999}`),
		})
		r.bury("card was refused", id)
	}
	r.ask("admin.pause", map[string]string{"topic": "report.nightly"})
	stop := make(chan struct{})
	ended := make(chan struct{})
	var n atomic.Int64
	go func() {
		defer close(ended)
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
			}
			i := int(n.Add(1))
			job := fmt.Sprintf(`{"topic":%q,"delay":"%dms","body":{"n":%d}}`, topics[i%len(topics)], i*37%4000, i)
			_ = r.nc.Publish(r.prefix+".push", []byte(job)) // the test is over soon
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
	testenv.Eventually(t, patience, func() bool { return n.Load() > 200 }, "jobs are pushed")
}

// Every view in light and dark and on a phone: readable, and no wider than the screen.
func (b *browser) testScreens(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	busy(t, r)
	grounds := make(map[string]bool)
	for _, v := range []view{desk, night, phone} {
		p := b.enter(t, v, r.addr, "")
		for _, page := range []struct{ name, hash, text string }{
			{"topics", "#/", "nobody listens"},
			{"topic", "#/topics/mail", "Topic mail"},
			{"jobs", "#/jobs?topic=slow&state=inflight", "slow-1"},
			{"job", "#/jobs/order-1003", "buried: card was refused"},
			{"dead", "#/dead", "card was refused"},
		} {
			p.goes(page.hash)
			p.sees(page.text)
			p.holds(`document.querySelectorAll(".plots .blank").length === 0`)
			p.fits()
			p.shot("busy-" + page.name + "-" + name(v))
		}
		grounds[value[string](p, `getComputedStyle(document.body).backgroundColor`)] = true
		p.key("?")
		p.sees("find a job by its id")
		p.shot("keys-" + name(v))
		if v == phone {
			p.key("\x1b")
			p.goes("#/")
			p.sees("nobody listens")
			p.holds(`document.querySelector("table.topics thead").getBoundingClientRect().height <= 1`) // rows are cards
		}
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark have the grounds %v", grounds)
	}
}

// The keys that the page lists.
func (b *browser) testKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for i := range 60 {
		r.push(client.Job{Topic: fmt.Sprintf("t%02d", i), Delay: "1h"})
	}
	p := b.open(t, desk, r.addr, "")
	p.sees("Page 1")
	p.key("\t")
	p.holds(`document.activeElement.innerText === "To the content"`)
	p.key("\r")
	p.holds(`document.activeElement.id === "main"`)
	p.key("/")
	p.holds(`document.activeElement.id === "find"`)
	p.key("d") // a letter, in a field
	p.holds(`document.querySelector("#find").value === "d"`)
	p.key("\x1b")
	p.holds(`document.activeElement === document.body`)
	p.key("f")
	p.holds(`document.activeElement.id === "filter"`)
	p.key("\x1b")
	p.key("?")
	p.sees("previous page")
	p.key("j") // nothing, as there is a dialog
	p.key("\x1b")
	p.lacks("previous page")
	p.key("n")
	p.sees("Page 2")
	p.key("p")
	p.sees("Page 1")
	for key, title := range map[string]string{"j": "Jobs", "d": "Dead letters", "t": "Topics"} {
		p.key(key)
		p.holds(fmt.Sprintf(`document.querySelector("h1").innerText === %q && document.title.startsWith(%q)`, title, title))
	}
}
