package delay

import (
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestAges: who waits for longest, delayed and ready, by the store's time; what was delivered before does not count.
func TestAges(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 2, MaxDelay: time.Hour})
	shift := time.Duration(0)
	store.shift = func() time.Duration { return shift }
	push := func(id, topic string, delay time.Duration) {
		t.Helper()
		if p := store.Push(t.Context(), []Job{{ID: id, Topic: topic, Delay: delay, TTR: time.Hour}})[0]; p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	check := func(when string, overdue, ready time.Duration) {
		t.Helper()
		got, err := store.Ages(t.Context())
		// The test itself takes some of the time, and due times are rounded up to the ms.
		const rounding = 2 * time.Millisecond
		near := func(got, want time.Duration) bool {
			return got >= want-rounding && (want > 0 && got < want+10*time.Second || got == 0)
		}
		if err != nil || !near(got.Overdue, overdue) || !near(got.Ready, ready) {
			t.Errorf("%s: %+v, %v, should be about %v and %v", when, got, err, overdue, ready)
		}
	}
	promote := func() {
		t.Helper()
		for b := range 2 {
			if _, err := store.Promote(t.Context(), b, Offer{}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("nothing stored", 0, 0)
	push("later", "t", 10*time.Minute)
	push("soon", "t", time.Minute)
	check("nothing is due", 0, 0)
	shift = 3 * time.Minute
	check("one is due", 2*time.Minute, 0)
	promote()
	check("it is ready", 0, 2*time.Minute)
	push("now", "other", 0)
	check("beside one of another topic", 0, 2*time.Minute)
	wants := [][]Want{{{Topic: "t", N: 1}}, {{Topic: "t", N: 1}}}
	reserved, err := store.Reserve(t.Context(), "0.test", wants)
	if err != nil {
		t.Fatal(err)
	}
	shift += time.Minute
	check("it is leased", 0, time.Minute)
	var leases []Lease
	for _, bucket := range reserved {
		for _, d := range bucket.Topics[0].Deliveries {
			leases = append(leases, d.Lease)
		}
	}
	if done, err := store.Return(t.Context(), leases); err != nil || len(done) != 1 || !done[0] {
		t.Fatal(done, err)
	}
	check("it was returned, nobody has it", 0, 3*time.Minute)
	store.Finish(t.Context(), []Ack{{ID: "soon"}})
	check("only the other topic's is left", 0, time.Minute)
}

// TestEndings: a delivery says how the one before it ended, and a flight whose time ran out which time that was.
func TestEndings(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
	shift := time.Duration(0)
	store.shift = func() time.Duration { return shift }
	const ttr = time.Minute
	if p := store.Push(t.Context(), []Job{{ID: "a", Topic: "t", TTR: ttr}})[0]; p.Err != nil {
		t.Fatal(p.Err)
	}
	deliver := func(before Ending, attempt int) Delivery {
		t.Helper()
		got, err := store.Reserve(t.Context(), "0.test", [][]Want{{{Topic: "t", N: 1}}})
		if err != nil || len(got[0].Topics[0].Deliveries) != 1 {
			t.Fatal(got, err)
		}
		d := got[0].Topics[0].Deliveries[0]
		if d.Before != before || d.Attempt != attempt {
			t.Fatalf("attempt %d after %q, should be %d after %q", d.Attempt, d.Before, attempt, before)
		}
		return d
	}
	confirm := func(d Delivery) {
		t.Helper()
		d.Lease.TTR = ttr
		if done, err := store.Confirm(t.Context(), []Lease{d.Lease}); err != nil || !done[0] {
			t.Fatal(done, err)
		}
	}
	runOut := func(by time.Duration, certain bool) {
		t.Helper()
		shift += by + time.Second
		p, err := store.Promote(t.Context(), 0, Offer{}, nil)
		if err != nil || len(p.Ended) != 1 || p.Ended[0].Certain != certain {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	release := func(d Delivery) {
		t.Helper()
		if r := store.Release(t.Context(), []Ack{{ID: "a", Push: d.Push, Token: d.Token}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	deliver("", 1)
	runOut(LeaseTime, false)
	confirm(deliver("", 1)) // a lease is no delivery
	runOut(ttr, true)
	second := deliver(EndedTTR, 2)
	confirm(second)
	release(second)
	deliver(EndedReleased, 3)
	runOut(LeaseTime, false)
	third := deliver(EndedReturned, 3)
	confirm(third)
	if r := store.Bury(t.Context(), []Ack{{ID: "a", Push: third.Push, Token: third.Token}})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if k := store.Kick(t.Context(), []string{"a"})[0]; k.Err != nil {
		t.Fatal(k.Err)
	}
	deliver("", 1) // a fresh budget
}
