package delay

import (
	"errors"
	"testing"
	"time"
)

// TestLeasedAhead: a job that is leased before it is due is in flight, but nobody can have it yet: what only a worker says
// of it is refused, and it can be ended, not changed.
func TestLeasedAhead(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	store := w.stores[0]
	offer := Offer{Owner: "0.a", Soon: 25 * ms, Topics: []Want{{Topic: "t", N: 10, Patient: true}}}
	lease := func(id string, ttr time.Duration) {
		t.Helper()
		jobs := []Job{{ID: id, Topic: "t", TTR: ttr, Delay: 20 * ms}, {ID: id + " later", Topic: "t", Delay: 30 * ms}}
		for _, p := range store.Push(t.Context(), jobs) {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
		p, err := store.Promote(t.Context(), 0, offer, nil)
		if err != nil || len(p.Leased) != 1 || p.Leased[0].ID != id || p.Leased[0].Next.Sub(p.Clock) != 20*ms || p.Next != 30*ms {
			t.Fatalf("%+v %v", p, err)
		}
		if done := store.Finish(t.Context(), []Ack{{ID: id + " later"}}); !done[0].Finished {
			t.Fatalf("%+v", done)
		}
	}
	for _, ttr := range []time.Duration{0, time.Minute} {
		lease("a", ttr)
		due := w.at.Add(20 * ms)
		for name, verb := range map[string]func() Settled{
			"touch":   func() Settled { return store.Touch(t.Context(), []Ack{{ID: "a"}})[0] },
			"release": func() Settled { return store.Release(t.Context(), []Ack{{ID: "a"}})[0] },
		} {
			if r := verb(); !errors.Is(r.Err, ErrState) || r.State != Delayed || !r.At.Equal(due) {
				t.Errorf("%s of a job that is not due: %+v", name, r)
			}
		}
		if _, err := store.Reschedule(t.Context(), "a", time.Minute, time.Time{}); !errors.Is(err, ErrLeased) {
			t.Errorf("reschedule: %v", err)
		}
		if p := store.Push(t.Context(), []Job{{ID: "a", Topic: "t", Replace: true}}); !errors.Is(p[0].Err, ErrLeased) {
			t.Errorf("replace: %+v", p)
		}
		w.step(20 * ms)
		if r := store.Touch(t.Context(), []Ack{{ID: "a"}})[0]; ttr > 0 && r.Err != nil {
			t.Errorf("touch of a job that is due: %+v", r)
		}
		store.Finish(t.Context(), []Ack{{ID: "a"}})
	}

	lease("b", time.Minute)
	if r := store.Finish(t.Context(), []Ack{{ID: "b"}})[0]; !r.Finished || r.Flight == nil || r.Flight.Owner != "0.a" {
		t.Errorf("finish: %+v", r)
	}
	lease("c", time.Minute)
	if r := store.Bury(t.Context(), []Ack{{ID: "c", Reason: "buried"}})[0]; r.Died == nil || r.Died.Attempt != 0 || r.Flight == nil {
		t.Errorf("bury: %+v", r)
	}
	lease("d", time.Minute)
	w.step(20*ms + LeaseTime - ms)
	if p, err := store.Promote(t.Context(), 0, Offer{}, nil); err != nil || len(p.Ended) > 0 {
		t.Errorf("the lease has run out already: %+v %v", p, err)
	}
	w.step(ms)
	if p, err := store.Promote(t.Context(), 0, Offer{}, nil); err != nil || len(p.Ended) != 1 || len(p.Topics) != 1 {
		t.Errorf("the lease has not run out: %+v %v", p, err)
	}
}

// TestReadings: the quickest answer tells the clock best, for as long as clocks cannot have drifted apart by more than
// that, and one that was set back is believed.
func TestReadings(t *testing.T) {
	t.Parallel()
	local, clock := time.Unix(1000, 0), time.Unix(5000, 0)
	var r readings
	for i, row := range []struct {
		after, late, clockBack time.Duration // of each reading: since the one before, how long its answer took
		want                   time.Duration // how late the best is taken to be
	}{
		{0, 500 * us, 0, 500 * us},
		{10 * ms, 100 * us, 0, 100 * us},
		{10 * ms, 400 * us, 0, 110 * us},
		{10 * ms, 119 * us, 0, 119 * us}, // 20 ms after the best one, which may be 120 µs off by now
		{time.Second, 900 * us, 0, 900 * us},
		{10 * ms, 1500 * us, 0, 910 * us},
		{10 * ms, 100 * us, 50 * ms, 100 * us}, // the clock was set back
	} {
		local, clock = local.Add(row.after), clock.Add(row.after-row.clockBack)
		best := r.note(local.Add(row.late), clock)
		// What it says of the present moment of the clock.
		if late := best.When(clock).Sub(local); late < row.want-us || late > row.want+us {
			t.Errorf("reading %d: %v late, want %v", i, late, row.want)
		}
		if best.When(clock).Before(local) {
			t.Errorf("reading %d: the clock shows %v at %v, it is taken to show it at %v", i, clock, local, best.When(clock))
		}
	}
}

const us = time.Microsecond
