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
	for _, want := range []int{takeJobs + 2, 3, 0} {
		batch, _ := w.take()
		if n := len(batch[verbPush]); n != want {
			t.Errorf("a writer takes %d pushes, should take %d", n, want)
		}
	}
}
