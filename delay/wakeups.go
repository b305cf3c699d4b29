package delay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dqbridge/dqbridge/internal/alarm"
)

// span is when a sleeper may be woken up, and when it must be.
type span struct{ from, until time.Time }

// earlier gives what suits both: a zero span suits any.
func (s span) earlier(o span) span {
	if s.until.IsZero() || !o.until.IsZero() && o.until.Before(s.until) {
		return o
	}
	return s
}

// wakeups wakes tickers when their time has come, and with the first all that may be woken by then: so they go to Redis
// together.
type wakeups struct {
	now func() time.Time

	mu      sync.Mutex
	alarm   alarm.Alarm // nil while it does not run
	stopped bool
	// set is what the alarm is set for, zero: nothing. woke is when it last went off.
	set, woke time.Time
	sleepers  []sleeper
}

// sleeper is a ticker as its wakeups know it.
type sleeper struct {
	// span is when it is wanted, also while it is awake; zero: never.
	span
	asleep, alone bool
	// wake takes the company in which it wakes up, nil for none.
	wake chan *company
}

func newWakeups(n int, now func() time.Time) *wakeups {
	w := &wakeups{now: now, sleepers: make([]sleeper, n)}
	for i := range w.sleepers {
		w.sleepers[i].wake = make(chan *company, 1)
	}
	return w
}

// want makes a sleeper wake up within a span at the latest. It never blocks.
func (w *wakeups) want(i int, s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sleepers[i].span = w.sleepers[i].earlier(s)
	if w.sleepers[i].asleep {
		w.schedule(w.sleepers[i].until)
	}
}

// sleep waits until a sleeper is wanted, within a span at the latest. Where it is to be alone it has no company.
func (w *wakeups) sleep(i int, s span, alone bool) *company {
	w.mu.Lock()
	me := &w.sleepers[i]
	if w.stopped {
		w.mu.Unlock()
		return nil
	}
	me.span, me.asleep, me.alone = me.earlier(s), true, alone
	w.schedule(me.until)
	w.mu.Unlock()
	return <-me.wake
}

// schedule sets the alarm, where it is not set for an earlier moment. The caller holds mu.
func (w *wakeups) schedule(at time.Time) {
	if w.alarm != nil && (w.set.IsZero() || at.Before(w.set)) {
		w.set = at
		w.alarm.Set(at.Sub(w.now()))
	}
}

// run wakes sleepers until ctx is over, then all of them, and lets none sleep any more.
func (w *wakeups) run(ctx context.Context) {
	a := alarm.New()
	defer a.Close()
	w.mu.Lock()
	w.alarm = a
	w.mu.Unlock()
	defer context.AfterFunc(ctx, func() { a.Set(0) })()
	for ctx.Err() == nil {
		w.wake()
		a.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarm, w.stopped = nil, true
	for i := range w.sleepers {
		w.rouse(i, nil)
	}
}

// wake wakes those whose time has come and sets the alarm for the next.
func (w *wakeups) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	setBack := now.Before(w.woke) // then no moment means anything
	w.set, w.woke = time.Time{}, now
	var together []int
	due := false
	for i := range w.sleepers {
		s := &w.sleepers[i]
		switch late := setBack || !s.until.After(now); {
		case !s.asleep:
		case s.alone && late:
			w.rouse(i, nil)
		case s.alone:
		case late, !s.from.After(now):
			together = append(together, i)
			due = due || late
		}
	}
	if due {
		for some := range slices.Chunk(together, companyMost) {
			c := newCompany(len(some))
			for _, i := range some {
				w.rouse(i, c)
			}
		}
	}
	for i := range w.sleepers {
		if w.sleepers[i].asleep {
			w.schedule(w.sleepers[i].until)
		}
	}
}

// rouse wakes a sleeper up. The caller holds mu.
func (w *wakeups) rouse(i int, c *company) {
	s := &w.sleepers[i]
	if s.asleep {
		s.asleep, s.span = false, span{}
		s.wake <- c
	}
}

// companyMost is how many calls go together at most: Redis does nothing else until all are carried out.
const companyMost = 8

// company is some tickers that send their calls together. Each sends one, or leaves.
type company struct {
	size int

	mu      sync.Mutex
	calls   []*call
	missing int
	// sent is closed once the calls of all have their answers.
	sent chan struct{}
}

func newCompany(n int) *company { return &company{size: n, missing: n, sent: make(chan struct{})} }

// send carries out a call: the last of the company carries out all.
func (c *company) send(ctx context.Context, s *Store, own *call) error {
	if c == nil || c.size == 1 {
		return s.send(ctx, own)
	}
	c.arrive(ctx, s, own)
	<-c.sent
	return own.err
}

// leave tells the others that no call comes any more.
func (c *company) leave(ctx context.Context, s *Store) {
	if c != nil {
		c.arrive(ctx, s)
	}
}

func (c *company) arrive(ctx context.Context, s *Store, calls ...*call) {
	c.mu.Lock()
	c.calls = append(c.calls, calls...)
	c.missing--
	last := c.missing == 0
	c.mu.Unlock()
	if last {
		_ = s.send(ctx, c.calls...) // each call has its own error
		close(c.sent)
	}
}

// share is how much a call may take that may take n alone.
func (c *company) share(n int) int {
	if c == nil || c.size == 1 {
		return n
	}
	return n / 2
}
