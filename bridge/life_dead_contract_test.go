package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// expired waits for the event of an expired job and checks that the job is dead for that.
func (r *rig) expired(t *testing.T, events *worker, id string) {
	t.Helper()
	event := events.next(t)
	if event.id() != id || event.Header.Get("Dq-Reason") != "expired" || event.Header.Get("Dq-Topic") == "" || event.Header.Get("Dq-Attempt") != "0" {
		t.Errorf("event %v", event.Header)
	}
	job := r.look(t, id)
	if job.State != "dead" || job.DeadReason == nil || *job.DeadReason != "expired" || job.Attempt != 0 || job.DeadAt == nil {
		t.Errorf("the job is %+v", job)
	}
}

// TestLifeExpires: a job that is not delivered in time is dead instead of late.
func TestLifeExpires(t *testing.T) {
	t.Parallel()
	t.Run("at promotion", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.push(t, `{"id":"late","topic":"t","delay":0.5,"expires":0.3,"body":[1]}`)
		p := r.push(t, `{"id":"later","topic":"t","delay":0.5,"expires":60}`)
		if err := r.main.stop(t); err != nil {
			t.Fatal(err)
		}
		pause(t, time.Until(p.DueAt)+600*time.Millisecond)
		w, events := r.work(t, "t"), r.events(t, "dead.t")
		r.start(t)
		r.expired(t, events, "late")
		w.next(t).is(t, "later", 1).finish(t)
		w.quiet(t, 100*time.Millisecond)
		r.finish(t, "late")
		r.emptied(t)
	})
	t.Run("not while paused, then at delivery", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.admin(t, "pause", `{"topic":"t"}`)
		r.push(t, `{"id":"a","topic":"t","expires":0.2}`)
		r.push(t, `{"id":"b","topic":"t","delay":0.2,"expires":"100ms"}`)
		r.push(t, `{"id":"c","topic":"t","expires":60}`)
		pause(t, 2*time.Second)
		for _, id := range []string{"a", "b"} {
			if job := r.look(t, id); job.State != "ready" {
				t.Errorf("while paused the job is %+v", job)
			}
		}
		if events.count() > 0 {
			t.Errorf("dead while paused: %v", events.all()[0].Header)
		}
		w := r.work(t, "t")
		r.admin(t, "resume", `{"topic":"t"}`)
		w.next(t).is(t, "c", 1).finish(t)
		events.await(t, 2)
		for _, id := range []string{"a", "b"} {
			if job := r.look(t, id); job.State != "dead" || *job.DeadReason != "expired" {
				t.Errorf("the job is %+v", job)
			}
			r.finish(t, id)
		}
		if n := w.count(); n != 1 {
			t.Errorf("%d deliveries", n)
		}
		r.emptied(t)
	})
	t.Run("behind a full window", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.MaxInflight = 1 })
		w, events := r.work(t, "t"), r.events(t, "dead.t")
		r.push(t, `{"id":"first","topic":"t"}`)
		first := w.next(t).is(t, "first", 1)
		r.push(t, `{"id":"late","topic":"t","expires":0.4}`)
		r.push(t, `{"id":"last","topic":"t"}`)
		pause(t, 700*time.Millisecond)
		first.finish(t)
		w.next(t).is(t, "last", 1).finish(t)
		r.expired(t, events, "late")
		r.finish(t, "late")
		r.emptied(t)
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.push(t, `{"id":"other","topic":"t"}`)
		p := r.push(t, `{"id":"a","topic":"t","expires":1.5,"body":{"a":1e1}}`)
		r.expired(t, events, "a")
		if after := events.all()[0].at.Sub(p.DueAt); after < 1500*time.Millisecond || after > 10*time.Second {
			t.Errorf("dead %v after it was due", after)
		}
		if data := string(events.all()[0].Data); !strings.Contains(data, `"body":{"a":1e1}`) {
			t.Errorf("event %s", data)
		}
		r.is(t, "other", "ready")
		r.none(t, "t2", "", "no job at present")
		r.popped(t, "t", `{"wait":5}`).is(t, "other", 1).finish(t)
		r.finish(t, "a")
		r.emptied(t)
	})
	t.Run("nobody listens to many", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		list := make([]string, 600)
		for i := range list {
			list[i] = fmt.Sprintf(`{"topic":"t","expires":1.2,"id":"job-%d"}`, i)
		}
		r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]"))
		testenv.Eventually(t, patience, func() bool { return r.topic(t, "t").Dead == len(list) }, "all are dead")
		if line := r.topic(t, "t"); line.Ready != 0 || line.Inflight != 0 {
			t.Errorf("topic %+v", line)
		}
		r.admin(t, "purge", `{"topic":"t","state":"dead"}`)
		r.emptied(t)
	})
	t.Run("pop", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.push(t, `{"id":"a","topic":"t","expires":0.2}`)
		pause(t, 300*time.Millisecond)
		r.none(t, "t", "", "no job at present")
		r.expired(t, events, "a")
	})
	t.Run("header form", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.push(t, "raw\x00", "Dq-Id: a", "Dq-Topic: t", "Dq-Expires: 200ms")
		r.expired(t, events, "a")
	})
	t.Run("run and reschedule begin the clock anew", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.push(t, `{"id":"a","topic":"t","delay":600,"expires":6}`)
		must[stateReply](t, r, "run", `{"id":"a"}`)
		pause(t, time.Second)
		moved := must[stateReply](t, r, "reschedule", `{"id":"a","delay":0.5}`)
		r.expired(t, events, "a")
		if after := events.all()[0].at.Sub(moved.DueAt); after < 6*time.Second {
			t.Errorf("dead %v after its new due time", after)
		}
	})
}

// TestLifeExpiresNot: once delivered in time a job never expires, and a kick starts its clock anew.
func TestLifeExpiresNot(t *testing.T) {
	t.Parallel()
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := r.work(t, "t")
		r.push(t, `{"id":"a","topic":"t","expires":2,"backoff":[1]}`)
		w.next(t).is(t, "a", 1).settle(t, "-NAK")
		w.next(t).is(t, "a", 2).settle(t, "-NAK")
		w.leave(t)
		pause(t, 2500*time.Millisecond) // ready, and nobody listens
		r.is(t, "a", "ready")
		w = r.work(t, "t")
		w.next(t).is(t, "a", 3).finish(t)
		r.emptied(t)
	})
	t.Run("TTR over", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := r.work(t, "t")
		r.push(t, `{"id":"a","topic":"t","expires":0.8,"ttr":1}`)
		w.next(t).is(t, "a", 1)
		w.next(t).is(t, "a", 2).finish(t)
		r.emptied(t)
	})
	t.Run("kicked", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		events := r.events(t, "dead.t")
		r.push(t, `{"id":"a","topic":"t","expires":1}`)
		r.expired(t, events, "a")
		pause(t, 300*time.Millisecond)
		kicked := time.Now()
		said(t, r.admin(t, "kick", `{"id":"a"}`), `{"kicked":1}`)
		r.expired(t, events, "a") // nobody listens: dead once more
		if after := events.all()[1].at.Sub(kicked); after < time.Second {
			t.Errorf("dead %v after the kick", after)
		}
		w := r.watch(t, "t")
		said(t, r.admin(t, "kick", `{"id":"a"}`), `{"kicked":1}`)
		w.next(t).is(t, "a", 1).finish(t)
		r.emptied(t)
	})
}

// TestLifeKick: dead jobs are ready again with a fresh budget of attempts.
func TestLifeKick(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead := r.events(t, "dead.t")
	w := r.watch(t, "t")
	r.push(t, `{"id":"a","topic":"t","max_attempts":2,"backoff":[0.05],"body":{"x":[1]}}`)
	first := w.next(t).is(t, "a", 1)
	first.settle(t, "-NAK")
	second := w.next(t).is(t, "a", 2)
	if s := second.settle(t, "-NAK"); s.State != "dead" {
		t.Errorf("after its last attempt: %+v", s)
	}
	if event := dead.next(t); event.Header.Get("Dq-Reason") != "max_attempts" || event.attempt() != 2 || string(event.Data) != string(second.Data) {
		t.Errorf("event %s %v", event.Data, event.Header)
	}
	if job := r.look(t, "a"); job.State != "dead" || job.Attempt != 2 || *job.DeadReason != "max_attempts" {
		t.Errorf("the job is %+v", job)
	}
	said(t, r.admin(t, "kick", `{"id":"a"}`), `{"kicked":1}`)
	third := w.next(t).is(t, "a", 1)
	for _, old := range []*delivery{first, second} {
		if old.Header.Get("Nats-Msg-Id") == third.Header.Get("Nats-Msg-Id") || old.Reply == third.Reply {
			t.Errorf("%v and %v have one name", old.Header, third.Header)
		}
		for _, verb := range []string{"-NAK", "+WPI", "+TERM"} {
			refused(t, old.say(t, verb), 409, "a")
		}
	}
	if job := r.look(t, "a"); job.State != "inflight" || job.Attempt != 1 || job.DeadReason != nil || job.DeadAt != nil {
		t.Errorf("after old acks: %+v", job)
	}
	third.settle(t, "-NAK")
	if s := w.next(t).is(t, "a", 2).settle(t, "-NAK"); s.State != "dead" { // the budget is as large as ever
		t.Errorf("after its last attempt: %+v", s)
	}
	dead.next(t)
	r.finish(t, "a")
	r.emptied(t)
}

// TestLifeKickOldAcks: acks from before a kick cannot touch the job either while it waits for its next delivery.
func TestLifeKickOldAcks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, death := range map[string]string{"buried": "+TERM", "released": "-NAK"} {
		for _, verb := range []string{"-NAK", "+WPI", "+TERM"} {
			t.Run(name+" "+verb, func(t *testing.T) {
				t.Parallel()
				id := "old." + name + verb[1:]
				d := r.bring(t, id, "inflight", `,"max_attempts":1`)
				d.w.leave(t)
				d.settle(t, death)
				r.admin(t, "pause", fmt.Sprintf(`{"topic":%q}`, id))
				said(t, r.admin(t, "kick", fmt.Sprintf(`{"id":%q}`, id)), `{"kicked":1}`)
				refused(t, d.say(t, verb), 409, id)
				if job := r.look(t, id); job.State != "ready" || job.Attempt != 0 {
					t.Errorf("after an old %s: %+v", verb, job)
				}
				r.finish(t, id)
			})
		}
	}
}

// TestLifeKickStates: a job that is not dead is not kicked, and the answer names its state.
func TestLifeKickStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []string{"delayed", "ready", "inflight"} {
		r.bring(t, state, state, "")
		refused(t, r.admin(t, "kick", fmt.Sprintf(`{"id":%q}`, state)), 409, state)
		if job := r.look(t, state); job.State != state {
			t.Errorf("the job is %+v", job)
		}
		r.finish(t, state)
	}
	refused(t, r.admin(t, "kick", `{"id":"none"}`), 404, "none")
	for payload, names := range map[string]string{
		``: "id", `{}`: "id", `{"id":"a","topic":"t"}`: "id", `{"id":"a","limit":1}`: "limit", `{"topic":"t","limit":0}`: "limit",
		`{"topic":"t","limit":-1}`: "limit", `{"topic":"t","limit":1.5}`: "limit", `{"topic":"t","limit":"1"}`: "limit", `{"topic":"*"}`: "topic",
		`{"topic":"t","state":"dead"}`: "state", `{"id":" a"}`: "id", `{"id":5}`: "id", `["a"]`: "", `a`: "",
	} {
		refused(t, r.admin(t, "kick", payload), 400, names)
	}
}

// TestLifeKickTopic: all dead jobs of a topic, or so many of them.
func TestLifeKickTopic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 250
	list := make([]string, jobs)
	ids := make([]string, jobs)
	for i := range list {
		ids[i] = fmt.Sprintf(`"job-%d"`, i)
		list[i] = fmt.Sprintf(`{"id":%s,"topic":"t","delay":600}`, ids[i])
	}
	r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]"))
	r.push(t, `{"id":"alive","topic":"t","delay":600}`)
	r.push(t, `{"id":"other","topic":"t.u","delay":600}`)
	if answer := r.ask(t, r.msg("bury", "["+strings.Join(ids, ",")+`,"other"]`)); answer.Code != 200 {
		t.Fatal(answer.raw)
	}
	r.admin(t, "pause", `{"topic":"t"}`)
	for _, row := range []struct {
		payload            string
		kicked, dead, read int
	}{
		{`{"topic":"t","limit":1}`, 1, 249, 1},
		{`{"topic":"t","limit":130}`, 130, 119, 131},
		{`{"topic":"none"}`, 0, 119, 131},
		{`{"topic":"t","limit":119}`, 119, 0, 250},
		{`{"topic":"t"}`, 0, 0, 250},
	} {
		said(t, r.admin(t, "kick", row.payload), fmt.Sprintf(`{"kicked":%d}`, row.kicked))
		if line := r.topic(t, "t"); line.Dead != row.dead || line.Ready != row.read || line.Delayed != 1 {
			t.Errorf("after %s: %+v", row.payload, line)
		}
	}
	if job := r.look(t, "other"); job.State != "dead" {
		t.Errorf("another topic's job is %+v", job)
	}
	r.ask(t, r.msg("bury", "["+strings.Join(ids, ",")+"]"))
	said(t, r.admin(t, "kick", `{"topic":"t"}`), fmt.Sprintf(`{"kicked":%d}`, jobs))
	w := r.watch(t, "t")
	r.admin(t, "resume", `{"topic":"t"}`)
	w.await(t, jobs)
	r.ask(t, r.msg("finish", "["+strings.Join(ids, ",")+`,"other","alive"]`))
	r.emptied(t)
}

// TestLifeDeadMax: of too many dead jobs the oldest go.
func TestLifeDeadMax(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.DeadMax = 5 })
	var ids []string
	for i := range 12 {
		id := fmt.Sprintf("job-%02d", i)
		ids = append(ids, id)
		r.push(t, fmt.Sprintf(`{"id":%q,"topic":"t.%d","delay":%d}`, id, i%3, 600-i))
		r.ask(t, r.msg("bury", id))
		pause(t, 3*time.Millisecond)
	}
	testenv.Eventually(t, patience, func() bool { return must[struct{ Dead int }](t, r, "stats", "").Dead == 5 }, "five dead jobs are left")
	page := must[listPage](t, r, "list", `{"state":"dead"}`)
	var left []string
	for _, job := range page.Jobs {
		left = append(left, job.ID)
	}
	if !slices.Equal(left, ids[7:]) {
		t.Errorf("left are %v", left)
	}
	for _, id := range ids[:7] {
		r.gone(t, id)
	}
	if p := r.push(t, `{"id":"job-00","topic":"other","delay":600}`); p.Duplicate {
		t.Errorf("the id of a dropped job: %+v", p)
	}
	r.main.counts(t, `dqbridge_dead_dropped_total{limit="number"}`, 7)
	for _, id := range ids {
		r.finish(t, id)
	}
	r.emptied(t)
}

// TestLifeDeadRetention: dead jobs are kept for so long, and no longer.
func TestLifeDeadRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.DeadRetention = 3 * time.Second })
	r.push(t, `{"id":"a","topic":"t","delay":600}`)
	r.push(t, `{"id":"alive","topic":"t","delay":600}`)
	died := time.Now()
	r.ask(t, r.msg("bury", "a"))
	testenv.Eventually(t, patience, func() bool { return r.admin(t, "get", `{"id":"a"}`).Code == 404 }, "the job is gone")
	if kept := time.Since(died); kept < 3*time.Second || kept > 8*time.Second {
		t.Errorf("kept for %v", kept)
	}
	refused(t, r.admin(t, "kick", `{"id":"a"}`), 404)
	if line := r.topic(t, "t"); line.Dead != 0 || line.Delayed != 1 {
		t.Errorf("topic %+v", line)
	}
	r.finish(t, "alive")
	r.emptied(t)
}

type listPage struct {
	Jobs   []look
	Cursor string
}
