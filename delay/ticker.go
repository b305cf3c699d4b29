package delay

import (
	"context"
	"math/rand/v2"
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
	// shallowPause is the pause behind a batch of a backlog, times the number of buckets, and less for a smaller batch: all
	// buckets together promote less than 64,000 jobs a second, and leave Redis to pushes, to deliveries and to what becomes due
	// meanwhile. Where deepBacklog batches or more are due still, it would take long: then deepTurn, by the same rule, is the
	// time from the beginning of one batch to that of the next, which makes 102,400 jobs a second at most.
	shallowPause = 4 * time.Millisecond
	deepBacklog  = 8
	deepTurn     = 2500 * time.Microsecond
	// lead is how long before the first job is due that may be leased ahead of its time the call for it is made.
	lead = 12 * time.Millisecond
)

// ticker promotes the due jobs of one bucket. It sleeps until the next due time that it knows of, at most tick.
type ticker struct {
	bucket int
	store  *Store
	sink   Sink
	tick   time.Duration
	// ticked is one of the moments, a tick apart, at which it runs in any case: as many buckets share them as make their calls
	// together.
	ticked time.Time
	now    func() time.Time
	// wakeups wake it up.
	wakeups *wakeups
	// single: it makes its calls alone, since other buckets are on other nodes, which may be away.
	single bool
	// soon is how long before they are due its last promotion could lease jobs, ns.
	soon atomic.Int64
	// backlog says that the last promotion left some that are due.
	backlog bool
	// lastRun is when a promote last came back well, lastTurn when the loop last went round; ns since 1970.
	lastRun, lastTurn atomic.Int64
	// ahead is how far the bucket's time is ahead of Redis's clock, ns.
	ahead atomic.Int64
	// cursor is how far the look through the active topics got.
	cursor   ActivePlace
	nextLook time.Time
	sweep    *sweep
	clock    clockWatch
	readings *readings
}

// wakeIn makes the ticker run in time for what is due after d. It never blocks.
func (t *ticker) wakeIn(d time.Duration) {
	if d <= t.tick {
		t.wakeups.want(t.bucket, t.spanOf(t.now(), d))
	}
}

// spanOf gives when to run for what is due d after now: before that, where it can be leased ahead of its time.
func (t *ticker) spanOf(now time.Time, d time.Duration) span {
	soon := time.Duration(t.soon.Load())
	if soon == 0 {
		return span{now.Add(d), now.Add(d)}
	}
	return span{now.Add(d - soon), now.Add(d - lead)}
}

func (t *ticker) run(ctx context.Context) {
	pause := time.Duration(0)
	var with *company
	for {
		t.lastTurn.Store(t.now().UnixNano())
		next, err := t.promote(ctx, with)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(max(2*pause, retryPause), maxPause)
			t.sink.Trouble("promote", err)
			now := t.now()
			next = span{now, now.Add(pause/2 + rand.N(pause))}
		default:
			pause = 0
		}
		if with = t.wakeups.sleep(t.bucket, next, t.backlog || t.single || err != nil); ctx.Err() != nil {
			with.leave(ctx, t.store)
			return
		}
	}
}

// promote makes ready what is due, a batch of it, and gives when to run again.
func (t *ticker) promote(ctx context.Context, with *company) (span, error) {
	asked := t.now()
	offer := t.sink.Offer(t.bucket)
	if t.backlog {
		offer.Soon = 0 // to look ahead costs each job something, and there is nothing to find
	}
	t.soon.Store(int64(offer.Soon))
	p, err := t.store.promote(ctx, with, t.bucket, offer, t.sink.Paused())
	answered := t.now()
	if err == nil {
		p.Base = t.readings.note(answered, p.Clock.Add(-p.Ahead))
		p.Base.Clock = p.Base.Clock.Add(p.Ahead)
	}
	if len(offer.Topics) > 0 {
		t.sink.Leased(t.bucket, offer, asked, p)
	}
	if err != nil {
		return span{}, err
	}
	t.lastRun.Store(answered.UnixNano())
	t.ahead.Store(int64(p.Ahead))
	if by := t.clock.look(asked, answered, p.Clock, p.Ahead); by != 0 {
		t.sink.Jumped(t.bucket, by)
	}
	t.report(p)
	if ctx.Err() != nil {
		return span{}, ctx.Err()
	}
	if err := t.look(ctx); err != nil {
		return span{}, err
	}
	t.backlog = p.More > 0
	return t.next(with, offer, p, asked, answered), nil
}

// next gives when to run again after a promotion.
func (t *ticker) next(with *company, offer Offer, p Promotion, asked, answered time.Time) span {
	at := answered.Add(t.untilTick(answered))
	next := span{at, at}
	if p.More > 0 {
		at = answered.Add(t.backlogPause(with.share(offer.batch()), p.More, answered.Sub(asked)))
		next = next.earlier(span{at, at})
	}
	switch {
	case p.Next < 0:
	// A backlog leaves no room to lease ahead, and what of the next entries was not leased though it could cannot be.
	case p.More > 0, p.Next <= offer.Soon && len(p.Leased) < with.share(offer.batch()):
		next = next.earlier(span{answered.Add(p.Next), answered.Add(p.Next)})
	default:
		next = next.earlier(t.spanOf(answered, p.Next))
	}
	return next
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
