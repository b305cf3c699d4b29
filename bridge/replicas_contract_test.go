package bridge_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestReplicasShareTheWork: two bridges on one store deliver each job once, at its time, and take each other's acks.
func TestReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second := r.start(t)
	const jobs, redelivered = 600, 60
	handle := func(d *delivery) {
		var n int
		_, _ = fmt.Sscanf(d.id(), "job-%d", &n)
		switch {
		case n%10 == 0 && d.attempt() == 1:
			_ = d.Nak() // these come twice
		case n%3 == 0:
			_ = r.nc.Publish(r.subject("finish"), []byte(d.id())) // to whichever replica
		default:
			_ = d.Ack()
		}
	}
	w := r.join(t, r.nc, &worker{audience: "group", handle: handle}, "shared.*", "g")
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"shared.%d","delay":%q}`, i, i%7, fmt.Sprintf("%dms", i%900)))
	}
	w.await(t, jobs+redelivered)
	r.emptied(t)
	if n := w.count(); n != jobs+redelivered {
		t.Errorf("%d deliveries instead of %d", n, jobs+redelivered)
	}
	for i, b := range []*replica{r.main, second} {
		if n := b.metric(t, "dqbridge_deliveries_total"); n == 0 {
			t.Errorf("replica %d delivered nothing", i)
		}
		if n := b.metric(t, `dqbridge_pushes_total{code="200"}`); n == 0 {
			t.Errorf("replica %d took no push", i)
		}
	}
}

// TestReplicaIsToldOfItsFlights: what another replica settles opens the window of the one that delivered.
func TestReplicaIsToldOfItsFlights(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 2 })
	w := r.work(t, "told")
	const jobs = 30
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"told","ttr":600}`, i))
	}
	w.await(t, 2)
	r.start(t)
	// Finishes by id reach either replica, and both have a window.
	for range jobs {
		d := w.next(t)
		r.finish(t, d.id())
	}
	r.emptied(t)
}

// TestAcksOfAStoppedReplica: its ack subjects stay good, taken by another replica at once, or by its successor.
func TestAcksOfAStoppedReplica(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"another replica": true, "successor": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if another {
				// Where others live it need not wait for the acks that are out.
				r = newRig(t, func(s *setup) { s.ShutdownTimeout = 2 * patience })
			}
			w := r.work(t, "acks")
			out := map[string]*delivery{}
			for _, id := range []string{"finished", "released", "touched", "buried", "late"} {
				r.push(t, fmt.Sprintf(`{"id":%q,"topic":"acks","ttr":600}`, id))
				out[id] = w.next(t).is(t, id, 1)
			}
			if another {
				r.start(t)
			}
			started := time.Now()
			if err := r.main.stop(t); err != nil || time.Since(started) > patience {
				t.Fatalf("the end takes %v (%v)", time.Since(started), err)
			}
			if !another {
				r.start(t)
			}
			out["finished"].finish(t)
			if s := out["released"].settle(t, "-NAK"); s.State != "ready" {
				t.Errorf("released: %+v", s)
			}
			w.next(t).is(t, "released", 2).finish(t)
			if s := out["touched"].settle(t, "+WPI"); s.State != "inflight" {
				t.Errorf("touched: %+v", s)
			}
			if s := out["buried"].settle(t, "+TERM"); s.State != "dead" {
				t.Errorf("buried: %+v", s)
			}
			refused(t, out["released"].say(t, "-NAK"), 404)
			out["late"].finish(t)
			out["touched"].finish(t)
			r.finish(t, "buried")
			r.emptied(t)
		})
	}
}

// TestSuccessor: one that takes the slot of a replica that left answers that one's acks alone, although another replica
// took them until then.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 500
	w := r.work(t, "t")
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":600}`, i))
	}
	out := w.await(t, jobs)
	other := r.start(t)
	if err := r.main.stop(t); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() bool { return other.log.has("acks of a replica that is gone are taken") }, "the acks are taken")
	r.start(t)
	var workers sync.WaitGroup
	for part := range slices.Chunk(out, jobs/10) {
		workers.Go(func() {
			for _, d := range part {
				if n := finished(t, d.say(t, "+ACK")); n != 1 {
					t.Errorf("the ack of %s finished %d jobs", d.id(), n)
				}
			}
		})
	}
	workers.Wait()
	r.emptied(t)
}

// TestHandOver: no ack is lost, or wrongly answered, while a replica leaves its work to another.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		verb  string
		inbox string // the tail of the reply subjects; empty: one for each verb
	}{
		"finish": {"+ACK", ""}, "touch": {"+WPI", ""}, "release": {"-NAK", ""}, "bury": {"+TERM", ""},
		"finish to one inbox": {"+ACK", "one"}, "touch to one inbox": {"+WPI", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) { s.ShutdownTimeout = 2 * patience })
			r.history.allowRepeats() // a batch that takes longer than half its lease is given back
			w := r.member(t, r.nc, "over", "g")
			const jobs, burst = 600, 4
			list, ids := make([]string, jobs), make([]string, jobs)
			for i := range list {
				ids[i] = fmt.Sprintf(`"job-%d"`, i)
				list[i] = `{"id":` + ids[i] + `,"topic":"over","ttr":600,"max_attempts":9}`
			}
			r.push(t, `{"id":"first","topic":"over","delay":600}`)
			if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != http.StatusOK {
				t.Fatalf("%.200s", answer.raw)
			}
			r.counts(t, jobs)
			out := w.latest()
			r.start(t, func(s *setup) { s.ShutdownTimeout = time.Second })
			inbox := r.nc.NewInbox()
			answers := &worker{rig: r}
			answers.subscribe(t, r.nc, inbox+".*", "")
			r.main.cancel()
			// Some at once, close together at first, and then until the replica is gone.
			sent := 0
			for part := range slices.Chunk(out, burst) {
				for _, d := range part {
					if err := r.nc.PublishRequest(d.Reply, inbox+"."+cmp.Or(row.inbox, d.id()), []byte(row.verb)); err != nil {
						t.Fatal(err)
					}
				}
				sent += len(part)
				if sent < jobs/2 {
					pause(t, time.Millisecond)
				} else {
					pause(t, 15*time.Millisecond)
				}
			}
			if err := r.main.wait(t); err != nil {
				t.Error(err)
			}
			for _, d := range answers.await(t, sent) {
				if e := envelopeOf(t, d.Msg); e.Code != http.StatusOK {
					t.Errorf("answered %s", e.raw)
				}
			}
			if n := answers.count(); n != sent {
				t.Errorf("%d answers to %d verbs", n, sent)
			}
			r.finish(t, "first")
			r.ask(t, r.msg("finish", "["+strings.Join(ids, ",")+"]"))
			r.emptied(t)
		})
	}
}

// TestShutdown: a bridge that leaves takes nothing new, delivers nothing more, waits for what is out, and keeps what
// it took.
func TestShutdown(t *testing.T) {
	t.Parallel()
	t.Run("waits for acks", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.ShutdownTimeout = 2 * patience })
		w := r.work(t, "out")
		r.push(t, `{"id":"a","topic":"out"}`)
		d := w.next(t).is(t, "a", 1)
		b := r.push(t, `{"id":"b","topic":"out","delay":3}`)
		r.main.cancel()
		testenv.Eventually(t, patience, func() bool {
			_, err := r.nc.Request(r.subject("push"), nil, patience)
			return err == nats.ErrNoResponders //nolint:errorlint // it is compared as it is
		}, "pushes find nobody")
		w.quiet(t, time.Until(b.DueAt)+500*time.Millisecond) // it is due, and not delivered any more
		if r.main.over() {
			t.Fatal("it did not wait for the ack")
		}
		if status, _ := r.main.get(t, "/readyz"); status != 503 {
			t.Errorf("a bridge that leaves says %d on /readyz", status)
		}
		d.finish(t)
		started := time.Now()
		if err := r.main.wait(t); err != nil || time.Since(started) > patience {
			t.Errorf("after the last ack it took %v (%v)", time.Since(started), err)
		}
		r.start(t)
		w.next(t).is(t, "b", 1).finish(t)
		r.emptied(t)
	})
	t.Run("gives up in time", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.ShutdownTimeout = time.Second })
		w := r.work(t, "out")
		r.push(t, `{"id":"a","topic":"out","ttr":600}`)
		d := w.next(t).is(t, "a", 1)
		started := time.Now()
		if err := r.main.stop(t); err != nil || time.Since(started) > 5*time.Second {
			t.Errorf("it took %v (%v)", time.Since(started), err)
		}
		r.start(t)
		d.finish(t)
		r.emptied(t)
	})
	t.Run("keeps what it took", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.ShutdownTimeout = patience })
		const pushes = 3000
		var sent sync.WaitGroup
		sent.Go(func() {
			for i := range pushes {
				_ = r.nc.PublishMsg(r.msg("push", fmt.Sprintf(`{"id":"job-%d","topic":"kept","delay":600}`, i)))
			}
			_ = r.nc.FlushTimeout(patience)
		})
		sent.Wait() // the server has them all, the bridge not yet
		if err := r.main.stop(t); err != nil {
			t.Fatal(err)
		}
		second := r.start(t)
		second.counts(t, `dqbridge_jobs{state="delayed"}`, pushes) // all that the bridge was given
	})
	t.Run("nothing is out", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.ShutdownTimeout = 2 * patience })
		w := r.work(t, "none")
		r.push(t, `{"id":"a","topic":"none"}`)
		w.next(t).finish(t)
		r.push(t, `{"id":"b","topic":"silent"}`)
		r.tried(t)
		started := time.Now()
		if err := r.main.stop(t); err != nil || time.Since(started) > 5*time.Second {
			t.Errorf("it took %v (%v)", time.Since(started), err)
		}
	})
}

// TestNotesHaveNoEcho: where pops wait at two replicas, these do not tell each other of ready jobs for ever.
func TestNotesHaveNoEcho(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second := r.start(t)
	// What a replica is told it handles before what is published later.
	awaited, notes := &worker{rig: r}, &worker{rig: r}
	awaited.subscribe(t, r.nc, r.subject("ack.*.*.waiting.>"), "")
	notes.subscribe(t, r.nc, r.subject("ack.*.*.ready"), "")
	ctx, cancel := context.WithCancel(t.Context())
	var pops sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		pops.Wait()
	})
	for _, b := range []*replica{r.main, second} {
		for range 2 {
			pops.Go(func() { _, _ = b.tryHTTP(ctx, t, http.MethodGet, "/pop?topic=t&wait=20s", "") })
		}
	}
	testenv.Eventually(t, patience, func() bool {
		told := map[string]bool{}
		for _, d := range awaited.all() {
			told[d.Subject] = true
		}
		return len(told) == 2
	}, "the replicas tell each other of their pops")
	id := r.push(t, `{"topic":"t","ttr":60}`).ID
	pause(t, 300*time.Millisecond) // an echo would be there thousands of times
	if n := notes.count(); n > 10 {
		t.Errorf("%d notes of one ready job", n)
	}
	r.finish(t, id)
}

// TestLeavingIsTold: a replica that leaves gives up watching buckets, and tells the other to look for itself at once.
func TestLeavingIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.buckets = 1 })
	w := r.handle(t, "t", func(d *delivery) { _ = d.Ack() })
	looks := &worker{rig: r}
	looks.subscribe(t, r.nc, r.subject("ack.*.*.look"), "")
	r.push(t, `{"topic":"t","delay":0.9}`) // the one bridge watches
	r.start(t)
	if err := r.main.stop(t); err != nil {
		t.Fatal(err)
	}
	if d := looks.next(t); !strings.HasPrefix(d.Subject, r.subject("ack.1.")) {
		t.Errorf("%s is told", d.Subject)
	}
	w.await(t, 1)
	r.emptied(t)
}
