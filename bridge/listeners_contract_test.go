package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestNobodyListens: jobs are held, no attempt counts, and they come within a second of a listener.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, fields := range map[string]string{
		"plain": ``, "one attempt": `,"max_attempts":1`, "short ttr": `,"ttr":0.01,"max_attempts":1`, "ttr 0": `,"ttr":0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "nobody." + strings.ReplaceAll(name, " ", "_")
			const jobs = 50
			for i := range jobs {
				r.push(t, fmt.Sprintf(`{"id":"%s-%d","topic":%q%s}`, topic, i, topic, fields))
			}
			// Long enough that the pauses between two tries have grown to their longest.
			r.main.hasReturned(t, 30)
			came := time.Now()
			w := r.work(t, topic)
			first := w.next(t)
			if late := first.at.Sub(came); late > 2*time.Second {
				t.Errorf("the first job comes %v after the listener", late)
			}
			seen := map[string]bool{}
			for _, d := range w.await(t, jobs) {
				if d.attempt() == 1 {
					seen[d.id()] = true
				}
				_ = d.Ack()
			}
			if len(seen) != jobs {
				t.Errorf("%d jobs came as attempt 1", len(seen))
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestListenerGoes: a worker that leaves costs no attempt of what is ready, and the next one gets all.
func TestListenerGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "goes")
	r.push(t, `{"id":"a","topic":"goes","max_attempts":2}`)
	d := w.next(t).is(t, "a", 1)
	w.leave(t)
	if s := d.settle(t, "-NAK"); s.State != "ready" {
		t.Errorf("released: %+v", s)
	}
	r.push(t, `{"id":"b","topic":"goes","max_attempts":1}`)
	r.tried(t)
	w = r.work(t, "goes")
	for _, d := range w.await(t, 2) {
		d.is(t, d.id(), map[string]int{"a": 2, "b": 1}[d.id()]).finish(t)
	}
	r.emptied(t)
}

// TestManySilentTopics do not hold up the others, and each is heard within a second.
func TestManySilentTopics(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{"plain": ``, "jobs that expire": `,"expires":3600`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const topics, tries = 300, 4
			var list []string
			for i := range topics {
				list = append(list, fmt.Sprintf(`{"id":"silent-%d","topic":"silent.%d"%s}`, i, i, fields))
			}
			if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != 200 {
				t.Fatalf("%.500s", answer.raw)
			}
			r.main.hasReturned(t, tries*topics)
			loud := r.work(t, "loud")
			var lateness []time.Duration
			for i := range 100 {
				r.push(t, fmt.Sprintf(`{"id":"loud-%d","topic":"loud"}`, i))
				d := loud.next(t)
				lateness = append(lateness, d.at.Sub(d.due()))
				d.finish(t)
			}
			slices.Sort(lateness)
			if median := lateness[len(lateness)/2]; median > 200*time.Millisecond {
				t.Errorf("half of the jobs of a topic with a listener come more than %v late", median)
			}
			came := time.Now()
			w := r.work(t, "silent.*")
			late := 0
			for _, d := range w.await(t, topics) {
				if d.at.Sub(came) > 3*time.Second {
					late++
				}
				_ = d.is(t, d.id(), 1).Ack()
			}
			if late > 0 {
				t.Errorf("%d of %d jobs come more than 3 s after their listener", late, topics)
			}
			r.emptied(t)
		})
	}
}

// TestSilentTopicsOnAFarRedis: however many topics without listeners there are, their questions to Redis hold up no
// delivery of another topic.
func TestSilentTopicsOnAFarRedis(t *testing.T) {
	t.Parallel()
	proxy := testenv.NewProxy(t, testenv.SharedRedis(t).Addr())
	r := newRig(t, func(s *setup) { s.redisURL = "redis://" + proxy.Addr() + "/0" })
	proxy.Delay(testenv.ToServer, time.Millisecond)
	const topics, jobs = 500, 50
	list := make([]string, topics)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"silent-%d","topic":"silent.%d"}`, i, i)
	}
	loud := r.work(t, "loud")
	if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != 200 {
		t.Fatalf("%.500s", answer.raw)
	}
	var lateness []time.Duration
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"loud-%d","topic":"loud"}`, i))
	}
	for _, d := range loud.await(t, jobs) {
		lateness = append(lateness, d.at.Sub(d.due()))
	}
	slices.Sort(lateness)
	if median := lateness[jobs/2]; median > time.Second {
		t.Errorf("half of the jobs of a topic with a listener come more than %v late", median)
	}
}

// TestEverySubscriberGetsAJob, and of a queue group one.
func TestEverySubscriberGetsAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain := []*worker{r.work(t, "all.x"), r.work(t, "all.*"), r.work(t, ">")}
	group := []*worker{r.member(t, r.nc, "all.x", "g"), r.member(t, r.connect(), "all.x", "g"), r.member(t, r.connect(), "all.>", "other")}
	const jobs = 40
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"all.x"}`, i))
	}
	for _, w := range plain {
		w.await(t, jobs)
	}
	group[2].await(t, jobs)
	testenv.Eventually(t, patience, func() bool { return group[0].count()+group[1].count() == jobs }, "the group has each job once")
	for _, d := range plain[0].all() {
		d.finish(t)
	}
	r.emptied(t)
	for i, w := range plain {
		if n := w.count(); n != jobs {
			t.Errorf("subscriber %d got %d", i, n)
		}
	}
	if n := group[0].count() + group[1].count(); n != jobs {
		t.Errorf("the group got %d", n)
	}
}

// TestWindow: no more than MaxInflight are out at once, whatever opens the window again.
func TestWindow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fields string
		settle func(d *delivery) error // nil: nothing is done
		each   int                     // deliveries of each job
	}{
		"acks":     {``, func(d *delivery) error { return d.Ack() }, 1},
		"by id":    {``, func(d *delivery) error { return d.w.rig.nc.Publish(d.w.rig.subject("finish"), []byte(d.id())) }, 1},
		"releases": {`,"max_attempts":3`, func(d *delivery) error { return d.Nak() }, 3},
		"buries":   {``, func(d *delivery) error { return d.Term() }, 1},
		"TTR":      {`,"ttr":0.2,"max_attempts":1`, nil, 1},
		"pauses":   {`,"max_attempts":2,"backoff":[0.1]`, func(d *delivery) error { return d.Nak() }, 2},
		"ttr 0":    {`,"ttr":0`, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window, jobs = 3, 17
			r := newRig(t, func(s *setup) { s.MaxInflight = window })
			var out, most atomic.Int64
			w := r.handle(t, "window", func(*delivery) { most.Store(max(most.Load(), out.Add(1))) })
			for i := range jobs {
				r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"window"%s}`, i, row.fields))
			}
			if row.settle == nil {
				w.await(t, jobs)
				return
			}
			for i := range jobs * row.each {
				if i == 0 {
					// All that the window lets out is out; another topic shows that the bridge goes on.
					w.await(t, window)
					other := r.work(t, "other")
					r.push(t, `{"id":"other","topic":"other"}`)
					other.next(t).finish(t)
				}
				d := w.next(t)
				out.Add(-1)
				if err := row.settle(d); err != nil {
					t.Fatal(err)
				}
			}
			if n := most.Load(); n > window {
				t.Errorf("%d deliveries were out at once", n)
			}
			if n := w.count(); n != jobs*row.each {
				t.Errorf("%d deliveries of %d jobs", n, jobs)
			}
		})
	}
}

// TestWindowIsOfATopic: a full window of one topic holds up no other.
func TestWindowIsOfATopic(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 2 })
	stuck, free := r.work(t, "stuck"), r.work(t, "free")
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"stuck-%d","topic":"stuck"}`, i))
	}
	stuck.await(t, 2)
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"free-%d","topic":"free"}`, i))
		free.next(t).finish(t)
	}
	if n := stuck.count(); n != 2 {
		t.Errorf("%d deliveries are out", n)
	}
	for range 20 {
		stuck.next(t).finish(t)
	}
	r.emptied(t)
}

// TestFastWorkerOnSilentTopics: that the first job of a topic was finished before its delivery was certain leaves none
// of the others behind.
func TestFastWorkerOnSilentTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const topics, each = 90, 3
	// Large and tried together, so that the first are finished while the last are still sent.
	body := strings.Repeat("x", 20_000)
	for i := range topics {
		for j := range each {
			r.push(t, fmt.Sprintf(`{"id":"job-%d-%d","topic":"fast.%d","body":%q}`, i, j, i, body))
		}
	}
	r.main.hasReturned(t, 8*topics)
	w := r.handle(t, "fast.*", func(d *delivery) { _ = d.Ack() })
	w.await(t, topics*each)
	r.emptied(t)
}
