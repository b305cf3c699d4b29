package dashboard_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// enter opens a guarded dashboard and gives it the token.
func (b *browser) enter(t *testing.T, v view, addr, hash string) *tab {
	t.Helper()
	p := b.open(t, v, addr, hash)
	p.expect("401")
	p.sees("Token wanted")
	p.types(`dialog input`, secret)
	p.button("Open")
	p.holds(`!document.querySelector("dialog")`)
	p.sees("live")
	return p
}

// Each action on a job, with its confirmation.
func (b *browser) testJobActions(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	r.push(
		client.Job{Topic: "mail", ID: "a", Delay: "1h"}, client.Job{Topic: "mail", ID: "b", Delay: "1h"},
		client.Job{Topic: "mail", ID: "c", Delay: "1h"}, client.Job{Topic: "mail", ID: "d", Delay: "1h"},
	)
	p := b.enter(t, desk, r.addr, "#/jobs/a")

	p.button("Run now")
	p.confirms("Run it now?")
	p.sees("Due now: it is ready.")
	r.becomes("a", "ready")
	p.holds(`document.querySelector(".badge.ready")`)

	p.goes("#/jobs/b")
	p.sees("delayed")
	p.button("Reschedule")
	p.types(`dialog input[name="delay"]`, "soon")
	p.click(`dialog button[type="submit"]`)
	p.expect("400")
	p.sees("delay") // the envelope's message, in the dialog, which stays
	p.holds(`document.querySelector('dialog [role="alert"]')?.innerText.includes("soon")`)
	p.types(`dialog input[name="delay"]`, "26h")
	p.confirms("Reschedule it?")
	p.sees("Due at ")
	if due := time.Until(r.stored("b").DueAt); due < 25*time.Hour || due > 27*time.Hour {
		t.Errorf("b is due in %v", due)
	}
	p.sees("1 d 2 h")

	p.goes("#/jobs/c")
	p.sees("Facts")
	p.button("Bury")
	p.types(`dialog input[name="reason"]`, "by hand")
	p.confirms("Bury it?")
	p.sees("Dead: buried: by hand")
	r.becomes("c", "dead")
	p.holds(buttonWith("Bury") + ".disabled")
	p.button("Kick")
	p.confirms("Kick it?")
	p.sees("Kicked: 1 job.")
	r.becomes("c", "ready")

	p.goes("#/jobs/d")
	p.sees("Facts")
	p.button("Cancel")
	p.button("Leave it")
	p.holds(`!document.querySelector("dialog")`)
	if r.stored("d") == nil {
		t.Error("d was cancelled without a confirmation")
	}
	p.button("Cancel")
	p.key("\x1b") // Esc
	p.holds(`!document.querySelector("dialog")`)
	p.button("Cancel")
	p.expect("404")
	p.confirms("Cancel it?")
	p.sees("Cancelled: it was delayed.")
	p.sees("The job is gone since")
	r.becomes("d", "")
}

// What is done to a whole topic.
func (b *browser) testTopicActions(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	for i := range 12 {
		r.push(client.Job{Topic: "mail", ID: strconv.Itoa(i), Delay: "1h"})
	}
	r.bury("x", "0", "1", "2")
	p := b.enter(t, desk, r.addr, "#/topics/mail")
	p.holds(`document.querySelector("#state-dead small")?.innerText === "3"`)

	p.button("Pause")
	p.confirms("Pause this topic?")
	p.sees("‖ paused")
	p.button("Resume")
	p.confirms("Resume this topic?")
	p.lacks("‖ paused")

	p.button("Kick all")
	p.sees("3 jobs of “mail” become ready again")
	p.confirms("Kick all dead jobs of this topic?")
	p.sees("Kicked: 3 jobs.")
	r.becomes("2", "ready")

	p.button("Purge")
	p.holds(`document.querySelector("dialog select").value === "dead"`)
	p.do(selectOption(`dialog select`, "delayed"))
	p.confirms("Purge this topic?")
	p.sees("Purged: 9 jobs.")
	r.becomes("5", "")
	p.sees("No delayed jobs.")
	if r.stored("0") == nil {
		t.Error("purge took a ready job")
	}
}

// Dead letters of all topics and of one, one by one and all of them.
func (b *browser) testDead(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	for _, topic := range []string{"mail", "sms"} {
		for i := range 3 {
			id := topic + "-" + strconv.Itoa(i)
			r.push(client.Job{Topic: topic, ID: id, Delay: "1h"})
			r.bury("reason of "+id, id)
		}
	}
	p := b.enter(t, desk, r.addr, "#/dead")
	p.sees("6 dead.")
	p.sees("buried: reason of sms-2")
	p.click(`[aria-label="Actions for mail-0"] button`)
	p.confirms("Kick it?")
	r.becomes("mail-0", "ready")
	p.holds(`document.querySelectorAll("table.jobs tbody tr").length === 5`)
	p.sees("5 dead.")

	p.types("#filter", "mail\r")
	p.sees("2 dead.")
	p.holds(`document.querySelectorAll("table.jobs tbody tr").length === 2`)
	p.button("Kick all")
	p.sees("2 jobs of “mail” become ready again")
	p.confirms("Kick all dead jobs of this topic?")
	p.sees("No dead jobs.")
	r.becomes("mail-2", "ready")
	r.becomes("sms-0", "dead")

	p.types("#filter", "\b\r")
	p.sees("3 dead.")
	p.button("Kick all")
	p.confirms("Kick all dead jobs of all topics?")
	p.sees("Kicked: 3 jobs.")
	r.becomes("sms-2", "ready")
	testenv.Eventually(t, patience, func() bool { return !value[bool](p, buttonWith("Kick all")+"?.matches(':enabled')") }, "nothing is left to kick")
}

// A dialog keeps the keyboard and gives it back.
func (b *browser) testDialogs(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	r.push(client.Job{Topic: "mail", ID: "one", Delay: "1h"})
	p := b.enter(t, desk, r.addr, "#/jobs/one")
	p.button("Reschedule")
	p.holds(`document.querySelector("dialog").contains(document.activeElement)`)
	for range 6 {
		p.key("\t")
		if !value[bool](p, `document.activeElement === document.body || document.querySelector("dialog").contains(document.activeElement)`) {
			t.Error("the focus leaves the dialog")
		}
	}
	p.shot("dialog-reschedule")
	p.key("\x1b")
	p.holds(`!document.querySelector("dialog")`)
	p.holds(`document.activeElement.innerText === "Reschedule"`)
	p.button("Bury")
	p.look(night)
	p.shot("dialog-bury-dark")
}
