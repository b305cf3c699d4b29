package bridge_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// warm lets the topic t have a delivery, so that the bridge knows that somebody listens.
func (r *rig) warm(t *testing.T, w *worker) {
	t.Helper()
	certain := r.events(t, "delivered.t")
	r.push(t, `{"id":"first","topic":"t"}`)
	w.next(t).finish(t)
	certain.next(t)
}

// TestOffersKeepToTheWindow: jobs that are leased as they become due take places of the window like others.
func TestOffersKeepToTheWindow(t *testing.T) {
	t.Parallel()
	const window, jobs = 4, 40
	r := newRig(t, func(s *setup) { s.MaxInflight = window })
	var out, most atomic.Int64
	w := r.handle(t, "t", func(*delivery) { most.Store(max(most.Load(), out.Add(1))) })
	r.warm(t, w)
	out.Store(0)
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":%g}`, i, 0.05+float64(i)/500))
	}
	testenv.Eventually(t, patience, func() bool { return r.topicOf(t, "t").Delayed == 0 }, "all are due")
	for range jobs {
		d := w.next(t)
		out.Add(-1)
		d.finish(t)
	}
	if n := most.Load(); n > window {
		t.Errorf("%d deliveries were out at once", n)
	}
	r.emptied(t)
}

// TestOffersOfPausedTopics: what becomes due while its topic is paused is made ready and not delivered.
func TestOffersOfPausedTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	r.warm(t, w)
	r.admin(t, "pause", `{"topic":"t"}`)
	r.push(t, `{"id":"a","topic":"t","delay":0.05}`)
	testenv.Eventually(t, patience, func() bool { return r.look(t, "a").State == "ready" }, "the job is ready")
	w.quiet(t, 50*time.Millisecond)
	r.admin(t, "resume", `{"topic":"t"}`)
	w.next(t).is(t, "a", 1).finish(t)
	r.emptied(t)
}

// TestOffersInOrder: a job that becomes due goes behind those of its topic and bucket that wait already.
func TestOffersInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight, s.buckets = 1, 1 })
	w := r.work(t, "t")
	r.warm(t, w)
	r.push(t, `{"id":"held","topic":"t"}`)
	held := w.next(t)
	const jobs = 20
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%02d","topic":"t","delay":%g}`, i, float64(i)/100))
	}
	testenv.Eventually(t, patience, func() bool { return r.topicOf(t, "t").Ready >= jobs/2 }, "some wait")
	held.finish(t)
	for i := range jobs {
		d := w.next(t)
		if want := fmt.Sprintf("job-%02d", i); d.id() != want {
			t.Errorf("delivery %d is of %s, want %s", i, d.id(), want)
		}
		d.finish(t)
	}
	r.emptied(t)
}
