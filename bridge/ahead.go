package bridge

import (
	"slices"
	"sync"
	"time"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/alarm"
)

// A promotion also leases jobs that are due within some ms. They wait here, and are published when their time has come: so
// they are there in time, and a call to Redis is for several jobs also where few become due.

// early is a delivery that was leased ahead of its time.
type early struct {
	delivery *delay.Delivery
	flight   *flight
	owner    string
	// at is when it is due, by the local clock.
	at time.Time
}

// ahead keeps deliveries until they are due.
type ahead struct {
	now func() time.Time
	// depart publishes some that have one owner.
	depart func(due []early)

	// mu guards what follows. waiting is in the order of its moments; the alarm is set for the first.
	mu      sync.Mutex
	waiting []early
	closed  bool
	alarm   alarm.Alarm
}

// keep takes deliveries, in the order of their moments.
func (a *ahead) keep(some []early) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range some {
		at, _ := slices.BinarySearchFunc(a.waiting, e.at, func(w early, at time.Time) int {
			if w.at.After(at) {
				return 1
			}
			return -1
		})
		a.waiting = slices.Insert(a.waiting, at, e)
		if at == 0 {
			a.alarm.Set(e.at.Sub(a.now()))
		}
	}
}

// run publishes what has become due until it is closed.
func (a *ahead) run() {
	defer a.alarm.Close()
	for {
		a.alarm.Wait()
		a.mu.Lock()
		due := a.take()
		closed := a.closed
		a.mu.Unlock()
		for len(due) > 0 {
			// A batch has one owner; it changes where the replica took another slot meanwhile.
			n := 1
			for n < len(due) && due[n].owner == due[0].owner {
				n++
			}
			a.depart(due[:n])
			due = due[n:]
		}
		if closed {
			return
		}
	}
}

// take gives what is due and sets the alarm for the next. The caller holds mu.
func (a *ahead) take() []early {
	now := a.now()
	n := 0
	for n < len(a.waiting) && !a.waiting[n].at.After(now) {
		n++
	}
	due := slices.Clone(a.waiting[:n])
	a.waiting = slices.Delete(a.waiting, 0, n)
	if len(a.waiting) > 0 {
		a.alarm.Set(a.waiting[0].at.Sub(now))
	}
	return due
}

// close ends run. Nothing waits any more.
func (a *ahead) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.alarm.Set(0)
}

// depart publishes deliveries that have become due, but for those that somebody settled meanwhile.
func (d *dispatcher) depart(due []early) {
	defer d.offers.Add(-len(due))
	b := &batch{owner: due[0].owner, passed: make(chan struct{})}
	d.mu.Lock()
	for _, e := range due {
		if d.flights[e.flight.key] != e.flight {
			continue
		}
		if len(b.flights) == 0 || e.flight.leased.Before(b.leased) {
			b.leased = e.flight.leased
		}
		b.deliveries, b.flights = append(b.deliveries, e.delivery), append(b.flights, e.flight)
	}
	d.mu.Unlock()
	d.dispatch(b)
}
