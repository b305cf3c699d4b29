package delay

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestCompanies: they are never so large that Redis is busy with one for long.
func TestCompanies(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const sleepers = 2*companyMost + 1
	w := newWakeups(sleepers, time.Now)
	woken := make(chan *company, sleepers)
	at := time.Now().Add(50 * ms)
	for i := range sleepers {
		go func() { woken <- w.sleep(i, span{at, at}, false) }()
	}
	testenv.Eventually(t, 10*time.Second, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(w.sleepers, func(s sleeper) bool { return !s.asleep })
	}, "all sleep")
	go w.run(ctx)
	sizes := make(map[int]int)
	for range sleepers {
		sizes[(<-woken).size]++
	}
	if want := map[int]int{companyMost: 2 * companyMost, 1: 1}; !maps.Equal(sizes, want) {
		t.Errorf("so many are in companies of such a size: %v, want %v", sizes, want)
	}
}

// TestWakeups: with the first whose time has come all wake up that may, together, and those that want to be alone alone.
func TestWakeups(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := newWakeups(5, time.Now)
	type woken struct {
		sleeper int
		with    *company
		at      time.Time
	}
	all := make(chan woken, 5)
	began := time.Now()
	in := func(from, until time.Duration) span { return span{began.Add(from), began.Add(until)} }
	sleep := func(i int, s span, alone bool) {
		go func() {
			with := w.sleep(i, s, alone)
			all <- woken{i, with, time.Now()}
		}()
	}
	sleep(0, in(50*ms, 50*ms), false)
	sleep(1, in(0, time.Hour), false)
	sleep(2, in(0, 50*ms), true)
	sleep(3, in(time.Hour, time.Hour), false)
	sleep(4, in(time.Hour, time.Hour), false)
	go w.run(ctx)
	together := make(map[int]*company)
	for range 3 {
		got := <-all
		if got.at.Before(began.Add(50 * ms)) {
			t.Errorf("sleeper %d wakes up after %v", got.sleeper, got.at.Sub(began))
		}
		together[got.sleeper] = got.with
	}
	if c := together[0]; c == nil || c.size != 2 || together[1] != c || together[2] != nil {
		t.Errorf("they wake up in company as %v", together)
	}
	w.want(3, in(0, 0))
	if got := <-all; got.sleeper != 3 || got.with.size != 1 {
		t.Errorf("sleeper %d wakes up in company of %d, sleeper 3 is wanted", got.sleeper, got.with.size)
	}
	w.want(0, in(0, 0)) // while it is awake: it does not sleep
	if with := w.sleep(0, in(time.Hour, time.Hour), true); with != nil {
		t.Error("it has company")
	}
	stop()
	if got := <-all; got.sleeper != 4 || got.with != nil {
		t.Errorf("at the end sleeper %d wakes up in company of %v", got.sleeper, got.with)
	}
	if with := w.sleep(0, in(time.Hour, time.Hour), false); with != nil {
		t.Error("it sleeps on behind the end")
	}
}

// TestCompanyIsLeft: who leaves a company does not hold up the others.
func TestCompanyIsLeft(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 2, MaxDelay: time.Hour})
	for _, first := range []bool{true, false} {
		c := newCompany(2)
		done := make(chan error, 1)
		if first {
			c.leave(t.Context(), store)
		}
		go func() {
			_, err := store.promote(t.Context(), c, 0, Offer{}, nil)
			done <- err
		}()
		if !first {
			testenv.Eventually(t, 10*time.Second, func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.calls) == 1
			}, "the other one waits")
			c.leave(t.Context(), store)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
