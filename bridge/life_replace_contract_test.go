package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// replaced is the data of the reply to a push that may replace.
type replaced struct {
	ID        string
	DueAt     time.Time `json:"due_at"`
	Duplicate bool
	Replaced  bool
	State     string
}

// TestLifeReplace: a push that replaces puts its job in the place of the stored one, with nothing left of that.
func TestLifeReplace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		from, to string
		headers  bool
		tried    bool // the stored job was delivered before
	}{
		"delayed to delayed":         {from: "delayed", to: "delayed"},
		"delayed to ready":           {from: "delayed", to: "ready"},
		"ready to delayed":           {from: "ready", to: "delayed"},
		"ready to ready":             {from: "ready", to: "ready"},
		"dead to delayed":            {from: "dead", to: "delayed"},
		"dead to ready":              {from: "dead", to: "ready"},
		"tried, delayed to delayed":  {from: "delayed", to: "delayed", tried: true},
		"tried, delayed to ready":    {from: "delayed", to: "ready", tried: true},
		"tried, dead to ready":       {from: "dead", to: "ready", tried: true},
		"header form":                {from: "delayed", to: "ready", headers: true},
		"header form, from dead":     {from: "dead", to: "delayed", headers: true},
		"header form, ready to late": {from: "ready", to: "delayed", headers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "replace." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			const old = `,"body":{"old":1},"headers":{"X-Old":"1"},"max_attempts":7,"backoff":[9],"expires":9000`
			var before *delivery
			if row.tried {
				before = r.bring(t, id, "inflight", old)
				before.w.leave(t)
				before.settle(t, map[string]string{"delayed": `-NAK {"delay": 600000000000}`, "dead": "+TERM"}[row.from])
			} else {
				r.bring(t, id, row.from, old)
			}
			r.is(t, id, row.from)
			after := map[string]time.Duration{"delayed": 700 * time.Millisecond}[row.to]
			began := time.Now()
			msg := r.msg("push", fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%v,"ttr":50,"body":"new","on_duplicate":"replace","headers":{"X-New":"2"}}`,
				id, id, after.Seconds()))
			if row.headers {
				msg = r.msg("push", "new\x00", "Dq-Id: "+id, "Dq-Topic: "+id, fmt.Sprintf("Dq-Delay: %v", after.Seconds()), "Dq-Ttr: 50",
					"Dq-On-Duplicate: replace", "X-New: 2")
			}
			answer := r.ask(t, msg)
			p := decoded[replaced](t, answer)
			if answer.Code != 200 || p.ID != id || !p.Replaced || p.Duplicate {
				t.Fatalf("replied %s", answer.raw)
			}
			near(t, "due_at", &p.DueAt, began, time.Now(), after)
			job := r.look(t, id)
			if job.State != row.to || job.Attempt != 0 || job.MaxAttempts != 0 || job.Backoff != nil || job.Expires != nil || job.DeadReason != nil ||
				job.DeadAt != nil || job.TTR != "50" || job.Headers["X-Old"] != nil || job.Headers["X-New"] == nil || !job.FirstDueAt.Equal(p.DueAt) ||
				job.PushedAt.Before(began.Add(-2*time.Millisecond).Truncate(time.Millisecond)) {
				if row.to != "ready" || job.State != "inflight" { // a probe
					t.Errorf("the job is %+v", job)
				}
			}
			if before != nil {
				for _, verb := range []string{"+ACK", "-NAK", "+WPI", "+TERM"} {
					refused(t, before.say(t, verb), 409, id)
				}
			}
			w := r.watch(t, id)
			r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
			d := w.next(t).is(t, id, 1)
			if d.at.Before(p.DueAt) || !d.due().Equal(p.DueAt) || d.Header.Get("X-Old") != "" || d.Header.Get("X-New") != "2" || !strings.Contains(string(d.Data), "new") {
				t.Errorf("delivered %s %v, due %v", d.Data, d.Header, p.DueAt)
			}
			d.finish(t)
			w.quiet(t, 100*time.Millisecond)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeReplaceRefused: a job in flight is never replaced, nor one of another topic; keep keeps.
func TestLifeReplaceRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.bring(t, "flight", "inflight", `,"body":1`)
	was := r.admin(t, "get", `{"id":"flight"}`).raw
	refused(t, r.ask(t, r.msg("push", `{"id":"flight","topic":"flight","body":2,"on_duplicate":"replace"}`)), 409, "flight", "inflight")
	for _, state := range []string{"delayed", "ready", "dead"} {
		id := "other." + state
		r.bring(t, id, state, "")
		stays := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw
		for _, mode := range []string{"replace", "keep"} {
			refused(t, r.ask(t, r.msg("push", fmt.Sprintf(`{"id":%q,"topic":"elsewhere","on_duplicate":%q}`, id, mode))), 409, id)
		}
		for _, kept := range []string{`"on_duplicate":"keep"`, `"on_duplicate":null`, `"delay":5`} {
			answer := r.ask(t, r.msg("push", fmt.Sprintf(`{"id":%q,"topic":%q,"body":3,%s}`, id, id, kept)))
			if p := decoded[replaced](t, answer); !p.Duplicate || p.Replaced || p.State != state || strings.Contains(answer.raw, "replaced") {
				t.Errorf("replied %s", answer.raw)
			}
		}
		if is := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw; is != stays {
			t.Errorf("changed to %s from %s", is, stays)
		}
		r.finish(t, id)
		r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
	}
	for _, wrong := range []string{`"Replace"`, `"drop"`, `true`, `1`, `""`} {
		refused(t, r.ask(t, r.msg("push", `{"id":"x","topic":"t","on_duplicate":`+wrong+`}`)), 400, "on_duplicate", "replace")
	}
	if is := r.admin(t, "get", `{"id":"flight"}`).raw; is != was {
		t.Errorf("changed to %s from %s", is, was)
	}
	d.finish(t)
	// A new id is stored as ever.
	answer := r.ask(t, r.msg("push", `{"id":"fresh","topic":"t","delay":9,"on_duplicate":"replace"}`))
	if p := decoded[replaced](t, answer); p.Replaced || p.Duplicate || strings.Contains(answer.raw, "replaced") {
		t.Errorf("replied %s", answer.raw)
	}
	r.finish(t, "fresh")
	r.emptied(t)
}

// TestLifeReplaceInArray: of one id twice in an array the later job takes the place of the earlier one.
func TestLifeReplaceInArray(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, delays := range map[string][3]string{"delayed": {"600", "500", "0.3"}, "ready": {"0", "0", "0"}, "both": {"0", "600", "0.2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "twice." + name
			r.admin(t, "pause", fmt.Sprintf(`{"topic":%q}`, id))
			var list []string
			for i, delay := range delays {
				list = append(list, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%s,"body":"body-%d","on_duplicate":"replace"}`, id, id, delay, i))
			}
			list = append(list, fmt.Sprintf(`{"id":%q,"topic":%q,"body":"kept out"}`, id, id))
			answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]"))
			envelopes := decoded[[]struct {
				Code int
				Data replaced
			}](t, answer)
			if answer.Code != 200 || len(envelopes) != 4 {
				t.Fatalf("replied %s", answer.raw)
			}
			for i, e := range envelopes {
				if e.Data.Replaced != (i == 1 || i == 2) || e.Data.Duplicate != (i == 3) {
					t.Errorf("element %d: %+v", i, e)
				}
			}
			w := r.watch(t, id)
			r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
			d := w.next(t).is(t, id, 1)
			if !strings.Contains(string(d.Data), "body-2") || !d.due().Equal(envelopes[2].Data.DueAt) {
				t.Errorf("delivered %s", d.Data)
			}
			d.finish(t)
			w.quiet(t, 200*time.Millisecond)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeDebounce: of many pushes of one id only the last is delivered, once, at its time.
func TestLifeDebounce(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]string{"delayed": "3", "ready": "0"} {
		for _, replicas := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d", name, replicas), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				if replicas == 2 {
					r.start(t)
				}
				if delay == "0" {
					r.admin(t, "pause", `{"topic":"t"}`)
				}
				w := r.watch(t, "t")
				if delay == "0" {
					pause(t, time.Second) // every replica knows of the pause
				}
				const pushes = 200
				var last replaced
				for i := range pushes {
					answer := r.ask(t, r.msg("push", fmt.Sprintf(`{"id":"a","topic":"t","delay":%s,"body":%d,"on_duplicate":"replace"}`, delay, i)))
					last = decoded[replaced](t, answer)
					if answer.Code != 200 || last.Replaced != (i > 0) {
						t.Fatalf("push %d: %s", i, answer.raw)
					}
				}
				r.admin(t, "resume", `{"topic":"t"}`)
				d := w.next(t).is(t, "a", 1)
				var job struct{ Body int }
				if err := json.Unmarshal(d.Data, &job); err != nil || job.Body != pushes-1 || !d.due().Equal(last.DueAt) || d.at.Before(last.DueAt) {
					t.Errorf("delivered %s at %v, due %v (%v)", d.Data, d.at, last.DueAt, err)
				}
				d.finish(t)
				w.quiet(t, 200*time.Millisecond)
				r.emptied(t)
			})
		}
	}
}

// TestLifeReplaceLeased: a replace that meets the probe of a topic without listeners waits for its outcome.
func TestLifeReplaceLeased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t","body":0}`)
	const pushes = 200
	for i := range pushes {
		msg := r.msg("push", fmt.Sprintf(`{"id":"a","topic":"t","body":%d,"on_duplicate":"replace"}`, i+1))
		began := time.Now()
		answer := r.ask(t, msg)
		for answer.Code == 409 { // a lease that lasts is a job in flight; that is for a machine that stands still
			if took := time.Since(began); took < 250*time.Millisecond {
				t.Fatalf("push %d, after %v: %s", i, took, answer.raw)
			}
			t.Logf("push %d met leases for %v", i, time.Since(began))
			began = time.Now()
			answer = r.ask(t, msg)
		}
		if p := decoded[replaced](t, answer); answer.Code != 200 || !p.Replaced {
			t.Fatalf("push %d: %s", i, answer.raw)
		}
		if i%20 == 0 { // the pauses between probes are short again
			w := r.watch(t, "t")
			testenv.Eventually(t, patience, func() bool { return w.count() > 0 }, "a delivery")
			w.leave(t)
			w.next(t).settle(t, "-NAK")
		}
	}
	if d := r.watch(t, "t").next(t); !strings.Contains(string(d.Data), fmt.Sprintf(`"body":%d`, pushes)) {
		t.Errorf("delivered %s", d.Data)
	}
	r.finish(t, "a")
	r.emptied(t)
}
