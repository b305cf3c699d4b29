package delay

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// activePage and activePages bound how many topics with ready jobs a ticker looks through at a tick.
	activePage  = 250
	activePages = 4
	// staleSlack is how many stale ids a list may have, compactBlocks how many blocks of it are cleared at a look.
	staleSlack    = 1000
	compactBlocks = 50
	maxPause      = time.Second
	// tickTogether is how many buckets tick at the same moments.
	tickTogether = 8
	// shallowPause is the pause behind a batch of a backlog, times the number of buckets, and less for a smaller batch: all
	// buckets together promote less than 64,000 jobs a second, and leave Redis to pushes, to deliveries and to what becomes due
	// meanwhile. Where deepBacklog batches or more are due still, it would take long: then deepTurn, by the same rule, is the
	// time from the beginning of one batch to that of the next, which makes 102,400 jobs a second at most.
	shallowPause = 4 * time.Millisecond
	deepBacklog  = 8
	deepTurn     = 2500 * time.Microsecond
)

// ticker promotes the due jobs of one bucket. It sleeps until the next due time that it knows of, at most tick.
type ticker struct {
	bucket int
	store  *Store
	sink   Sink
	tick   time.Duration
	// ticked is one of the moments, a tick apart, at which it runs in any case: some buckets share them, so that their calls
	// meet warm caches where nothing else is to do.
	ticked time.Time
	now    func() time.Time

	// due is the earliest moment it was told to wake, zero for none; the alarm, nil while it does not run, is set for it.
	mu    sync.Mutex
	due   time.Time
	alarm alarm
	// lastRun is when a promote last came back well, lastTurn when the loop last went round; ns since 1970.
	lastRun, lastTurn atomic.Int64
	// ahead is how far the bucket's time is ahead of Redis's clock, ns.
	ahead atomic.Int64
	// cursor is how far the look through the active topics got.
	cursor   ActivePlace
	nextLook time.Time
	sweep    *sweep
	clock    clockWatch
}

// wakeIn makes the ticker run after d at the latest. It never blocks.
func (t *ticker) wakeIn(d time.Duration) {
	if d <= t.tick {
		t.sleepFor(d)
	}
}

// sleepFor sets the alarm to d from now, where it is not set for an earlier moment.
func (t *ticker) sleepFor(d time.Duration) {
	at := t.now().Add(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alarm != nil && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
		t.alarm.set(d)
	}
}

// switchAlarm gives the ticker an alarm, or takes it away.
func (t *ticker) switchAlarm(a alarm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alarm = a
}

func (t *ticker) run(ctx context.Context) {
	a := newAlarm()
	defer a.close()
	t.switchAlarm(a)
	defer t.switchAlarm(nil)
	defer context.AfterFunc(ctx, func() { a.set(0) })()
	pause := time.Duration(0)
	for {
		t.lastTurn.Store(t.now().UnixNano())
		t.mu.Lock()
		t.due = time.Time{}
		t.mu.Unlock()
		next, err := t.promote(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(max(2*pause, retryPause), maxPause)
			t.sink.Trouble("promote", err)
			next = pause/2 + rand.N(pause)
		default:
			pause = 0
		}
		t.sleepFor(next)
		if ctx.Err() != nil {
			return
		}
		a.wait()
	}
}

// promote makes ready what is due, a batch of it, and gives how long to sleep.
func (t *ticker) promote(ctx context.Context) (time.Duration, error) {
	asked := t.now()
	offer := t.sink.Offer(t.bucket)
	p, err := t.store.Promote(ctx, t.bucket, offer, t.sink.Paused())
	if len(offer.Topics) > 0 {
		t.sink.Leased(t.bucket, offer, asked, p)
	}
	if err != nil {
		return 0, err
	}
	answered := t.now()
	t.lastRun.Store(answered.UnixNano())
	t.ahead.Store(int64(p.Ahead))
	if by := t.clock.look(asked, answered, p.Clock, p.Ahead); by != 0 {
		t.sink.Jumped(t.bucket, by)
	}
	t.report(p)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err := t.look(ctx); err != nil {
		return 0, err
	}
	longest := t.untilTick(answered)
	if p.More > 0 {
		longest = min(longest, t.backlogPause(offer.batch(), p.More, answered.Sub(asked)))
	}
	if p.Next >= 0 && p.Next < longest {
		return p.Next, nil
	}
	return longest, nil
}

// backlogPause is how long to wait after a batch of a backlog that took a while and left more.
func (t *ticker) backlogPause(batch, more int, took time.Duration) time.Duration {
	share := t.store.Buckets() * batch / promoteBatch
	if more < deepBacklog*batch {
		return shallowPause * time.Duration(share)
	}
	return max(0, deepTurn*time.Duration(share)-took)
}

// untilTick is how long until the next of the moments at which it runs in any case.
func (t *ticker) untilTick(now time.Time) time.Duration {
	since := now.Sub(t.ticked) % t.tick
	if since < 0 { // the clock went back
		since += t.tick
	}
	return t.tick - since
}

func (t *ticker) report(p Promotion) {
	for _, topic := range p.Topics {
		t.sink.Ready(t.bucket, topic)
	}
	ttrs := 0
	for _, flight := range p.Ended {
		if flight.Certain {
			ttrs++
		}
		t.sink.Ended(flight)
	}
	if len(p.Ended) > 0 {
		t.sink.RanOut(len(p.Ended)-ttrs, ttrs)
	}
	for _, job := range p.Died {
		t.sink.Died(job)
	}
	if p.Orphans > 0 {
		t.sink.Orphans(t.bucket, p.Orphans)
	}
}

// look tells of topics that other replicas made ready, once a tick, some pages further each time, and sweeps a page.
func (t *ticker) look(ctx context.Context) error {
	if t.now().Before(t.nextLook) {
		return nil
	}
	t.nextLook = t.now().Add(t.tick * 9 / 10) // so that no tick comes just before it
	for range activePages {
		topics, cursor, err := t.store.Active(ctx, t.bucket, t.cursor, activePage)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			t.sink.Ready(t.bucket, topic)
		}
		if err := t.compact(ctx, topics); err != nil {
			return err
		}
		t.cursor = cursor
		if cursor == (ActivePlace{}) {
			break
		}
	}
	return t.sweep.step(ctx, t.now())
}

// compact takes stale ids out of lists that have many of them: they come of finishes and replaces of ready jobs, and go
// by themselves only where somebody takes the topic's jobs.
func (t *ticker) compact(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	stale, err := t.store.stale(ctx, t.bucket, topics)
	if err != nil {
		return err
	}
	for i, topic := range topics {
		for range min(stale[i]/maxBatch, compactBlocks) {
			if stale[i] <= staleSlack {
				break
			}
			removed, err := t.store.Compact(ctx, t.bucket, topic, staleSlack)
			if err != nil {
				return err
			}
			stale[i] -= removed
		}
	}
	return nil
}
