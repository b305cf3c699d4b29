package delay

import (
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestEasyVerbs: a verb that is in no hurry is carried out soon, alone, with what comes meanwhile, and at the end.
func TestEasyVerbs(t *testing.T) {
	t.Parallel()
	redis := testenv.SharedRedis(t)
	store := NewStore(redis.Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 2, MaxDelay: time.Hour})
	w := newWriter(store, time.Now)
	settled := make(chan Settled, 300)
	finish := func(id string) {
		t.Helper()
		if p := store.Push(t.Context(), []Job{{ID: id, Topic: "t"}}); p[0].Err != nil {
			t.Fatal(p[0].Err)
		}
		o := &order{verb: verbFinish, ack: Ack{ID: id}, easy: true, settled: func(r Settled) { settled <- r }}
		if err := w.add(o); err != nil {
			t.Fatal(err)
		}
	}
	await := func(n int) {
		t.Helper()
		for range n {
			select {
			case r := <-settled:
				if r.Err != nil || !r.Finished {
					t.Errorf("settled: %+v", r)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a verb is not carried out")
			}
		}
	}
	finish("before the start")
	w.start(t.Context())
	await(1)
	for range 3 { // the timer of the first is used again
		finish("alone")
		await(1)
	}
	finish("beside a push")
	pushed := make(chan Pushed, 1)
	if err := w.add(&order{verb: verbPush, job: &Job{ID: "other", Topic: "t"}, pushed: func(p Pushed) { pushed <- p }}); err != nil {
		t.Fatal(err)
	}
	if p := <-pushed; p.Err != nil {
		t.Error(p.Err)
	}
	await(1)
	for i := range 2 * easyMost {
		finish(string(rune('a' + i)))
	}
	await(2 * easyMost)
	finish("at the end")
	w.stop()
	await(1)
}

// TestArraysStayTogether: pushes that are given together are of one batch, whatever waits before them.
func TestArraysStayTogether(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, time.Now) // it is not started, so all that is added waits
	push := func() *order { return &order{verb: verbPush, job: &Job{}} }
	for range takeJobs - 1 {
		if err := w.add(push()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := w.add(push(), push(), push()); err != nil {
			t.Fatal(err)
		}
	}
	w.stopped = true // else each takes half
	for _, want := range []int{takeJobs + 2, 3, 0} {
		batch, _ := w.take()
		if n := len(batch[verbPush]); n != want {
			t.Errorf("a writer takes %d pushes, should take %d", n, want)
		}
	}
}

// TestWritersTakeTurns: of pushes that come all at once each writer has half, and goes on having half when they come back;
// a few go at once where nothing is on its way, and wait for it where that is more.
func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, time.Now) // it is not started: the test is its writers
	push := func(n int) {
		for range n {
			if err := w.add(&order{verb: verbPush, job: &Job{}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	takes := func(want int) {
		t.Helper()
		if batch, found := w.take(); len(batch[verbPush]) != want || found != (want > 0) {
			t.Fatalf("a writer takes %d pushes (%v), should take %d", len(batch[verbPush]), found, want)
		}
	}
	push(1)
	takes(1)
	w.carried--
	push(64)
	takes(32)
	takes(32)
	takes(0)
	for range 10 { // one half after the other is answered and pushed again
		w.carried -= 32
		push(20)
		takes(0)
		push(12)
		takes(32)
	}
	w.carried = 0
	push(3)
	takes(3)
	if err := w.add(&order{verb: verbFinish}, &order{verb: verbFinish}); err != nil {
		t.Fatal(err)
	}
	push(1)
	takes(1) // beside verbs all is taken that is there
	if w.carried != 6 {
		t.Errorf("%d orders are on their way", w.carried)
	}
}
