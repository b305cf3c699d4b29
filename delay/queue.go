package delay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sink hears what the queue does by itself. Its methods are called from many goroutines and must not block.
type Sink interface {
	// Ready: a topic has ready jobs in a bucket.
	Ready(bucket int, topic string)
	// Ended: a delivery is over, by its TTR, its lease, or a verb.
	Ended(flight Flight)
	Died(job DeadJob)
	// RanOut: so many leases and so many TTRs were over before their deliveries were settled.
	RanOut(leases, ttrs int)
	// Orphans: so many ids without a record were dropped from a bucket.
	Orphans(bucket, n int)
	// Found: the sweep met something that should not be, and mended it where it could.
	Found(f Finding)
	// Dropped: so many dead jobs were dropped, for their age, and because there were too many.
	Dropped(old, over int)
	// Jumped: Redis's clock went forward or back by so much, against the local one.
	Jumped(bucket int, by time.Duration)
	// Paused gives the topics that are paused.
	Paused() []string
	// Offer gives the topics whose jobs of a bucket may be leased as soon as they are due. Where it gives some, Leased says
	// what came of it, in any case; asked is when, by the local clock.
	Offer(bucket int) Offer
	Leased(bucket int, offer Offer, asked time.Time, p Promotion)
	// Trouble: a duty could not be done and is tried again.
	Trouble(duty string, err error)
}

// Queue is a store with its batching writers and its tickers.
type Queue struct {
	*Store
	sink Sink
	// writer carries pushes, settler verbs. They are one, unless pushes wait for replicas: verbs must not stand behind them.
	writer, settler *writer

	tickers   []*ticker
	wakeups   *wakeups
	retention *retention

	mu sync.Mutex
	// stopTicking ends the tickers, stopCalls the calls of the writers; nil before Start.
	stopTicking, stopCalls context.CancelFunc
	ticking                sync.WaitGroup
}

// QueueOptions are for NewQueue.
type QueueOptions struct {
	// Tick is the longest that a ticker sleeps.
	Tick time.Duration
	// DeadRetention is how long dead jobs are kept, DeadMax how many; 0: no limit.
	DeadRetention time.Duration
	DeadMax       int
	// Now is the local clock; only its differences count.
	Now func() time.Time
	// Meter hears how long the store's calls take; nil: nobody does.
	Meter Meter
}

// NewQueue makes a queue on a store; sink hears what it does. It starts nothing.
func NewQueue(store *Store, sink Sink, o QueueOptions) *Queue {
	q := &Queue{Store: store, sink: sink, writer: newWriter(store, o.Now)}
	q.settler = q.writer
	if o.Meter != nil {
		store.watch(o.Meter, o.Now)
	}
	if store.waitReplicas > 0 {
		q.settler = newWriter(store, o.Now)
	}
	q.retention = &retention{store: store, sink: sink, age: o.DeadRetention, most: o.DeadMax}
	began := o.Now()
	q.wakeups = newWakeups(store.Buckets(), o.Now)
	clock, oneNode := &readings{}, store.oneNode()
	for b := range store.Buckets() {
		if !oneNode { // each has its own clock
			clock = &readings{}
		}
		ticked := began.Add(o.Tick * time.Duration(b/companyMost*companyMost) / time.Duration(store.Buckets()))
		q.tickers = append(q.tickers, &ticker{
			bucket: b, store: store, sink: sink, tick: o.Tick, ticked: ticked, now: o.Now, wakeups: q.wakeups,
			sweep: newSweep(store, b, sink), readings: clock, single: !oneNode,
		})
	}
	return q
}

// Start runs the writers and the tickers until Stop, also after ctx is over. The store must be open.
func (q *Queue) Start(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopCalls != nil {
		return
	}
	calls, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	ticking, stopTicking := context.WithCancel(calls)
	q.stopCalls, q.stopTicking = stopCalls, stopTicking
	q.writer.start(calls)
	if q.settler != q.writer {
		q.settler.start(calls)
	}
	q.ticking.Go(func() { q.wakeups.run(ticking) })
	for _, t := range q.tickers {
		q.ticking.Go(func() { t.run(ticking) })
	}
	q.ticking.Go(func() { q.retention.run(ticking) })
}

// Stop ends the tickers, carries out what was taken until ctx is over, and waits until nothing runs any more.
func (q *Queue) Stop(ctx context.Context) {
	q.mu.Lock()
	stopCalls, stopTicking := q.stopCalls, q.stopTicking
	q.mu.Unlock()
	if stopCalls == nil {
		return
	}
	defer stopCalls()
	stopTicking()
	defer context.AfterFunc(ctx, func() {
		stopCalls()
		_ = q.Close() // a call that waits for its answer does not see the end of its context
	})()
	q.ticking.Wait()
	q.writer.stop()
	if q.settler != q.writer {
		q.settler.stop()
	}
}

// Push is a job on its way into the queue.
type Push struct {
	// Job must not change any more.
	Job *Job
	// Done is called once, from another goroutine or before Submit returns.
	Done func(Pushed)
}

// Submit stores jobs, those of one id in the order they are given in, but for such that meet a lease and are tried again.
// waits says that somebody waits for the answers.
func (q *Queue) Submit(waits bool, pushes ...Push) {
	orders := make([]*order, len(pushes))
	for i, p := range pushes {
		orders[i] = q.orderOf(p, waits)
	}
	q.enqueue(orders...)
}

// orderOf makes the order of a push.
func (q *Queue) orderOf(push Push, waits bool) *order {
	job, done := push.Job, push.Done
	o := &order{verb: verbPush, job: job, waits: waits}
	o.pushed = func(p Pushed) {
		if errors.Is(p.Err, ErrLeased) {
			if q.writer.now().Sub(o.began) < leaseWait {
				time.AfterFunc(leaseLook, func() { q.enqueue(o) })
				return
			}
			p = Pushed{State: InFlight, Err: ErrState}
		}
		if p.Err == nil && !p.Duplicate {
			q.stored(job, p)
		}
		done(p)
	}
	return o
}

// stored passes on that there is a new job.
func (q *Queue) stored(job *Job, p Pushed) {
	switch {
	case p.State == Ready:
		q.sink.Ready(q.BucketOf(job.ID), job.Topic)
	case p.Watch || p.Wait > watchAhead: // else somebody looks before it is due
		q.tickers[q.BucketOf(job.ID)].wakeIn(p.Wait)
	}
}

// enqueue gives pushes to the writers, or answers why it cannot.
func (q *Queue) enqueue(orders ...*order) {
	if err := q.writer.add(orders...); err != nil {
		for _, o := range orders {
			o.pushed(Pushed{Err: &UnavailableError{Cause: err}})
		}
	}
}

const (
	// leaseWait is how long a change of a job waits for the outcome of its lease, leaseLook how often it looks.
	leaseWait = 250 * time.Millisecond
	leaseLook = 20 * time.Millisecond
)

// Reschedule gives a waiting job another due time, see Store.Reschedule. Where it meets a lease it waits a moment for
// the outcome; a lease that lasts is a job in flight.
func (q *Queue) Reschedule(ctx context.Context, id string, delay time.Duration, at time.Time) (Rescheduled, error) {
	began := q.writer.now()
	for {
		r, err := q.Store.Reschedule(ctx, id, delay, at)
		switch {
		case err == nil && r.State == Ready:
			q.sink.Ready(q.BucketOf(id), r.Topic)
		case err == nil:
			// The ticker learns from Redis when that is.
			q.tickers[q.BucketOf(id)].wakeIn(0)
		case errors.Is(err, ErrLeased) && q.writer.now().Sub(began) < leaseWait:
			timer := time.NewTimer(leaseLook)
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				timer.Stop()
				return r, ctx.Err()
			}
		case errors.Is(err, ErrLeased):
			return r, ErrState
		}
		return r, err
	}
}

// Kick makes dead jobs ready again, see Store.Kick.
func (q *Queue) Kick(ctx context.Context, ids []string) []Kicked {
	results := q.Store.Kick(ctx, ids)
	for _, k := range results {
		if k.Err == nil {
			q.sink.Ready(q.BucketOf(k.ID), k.Topic)
		}
	}
	return results
}

// Purge removes jobs, see Store.Purge.
func (q *Queue) Purge(ctx context.Context, topic string, state State, ids []string) (int, error) {
	n, ended, err := q.Store.Purge(ctx, topic, state, ids)
	for _, flight := range ended {
		q.sink.Ended(flight)
	}
	return n, err
}

// Verb is one of the verbs that settle a delivery.
type Verb string

// The verbs of Settle.
const (
	VerbFinish  Verb = "finish"
	VerbRelease Verb = "release"
	VerbTouch   Verb = "touch"
	VerbBury    Verb = "bury"
)

// Urgency says who waits for the outcome of a verb.
type Urgency int

const (
	// Awaited is for an outcome that somebody waits for, and gives up after a while.
	Awaited Urgency = iota
	// Prompt is for one that nobody waits for: the verb is repeated while Redis is away.
	Prompt
	// Easy is Prompt where a moment later will do: the verb shares a call with others that come meanwhile.
	Easy
)

// Settle carries out a verb; done is called once, from another goroutine.
func (q *Queue) Settle(v Verb, ack Ack, urgency Urgency, done func(Settled)) {
	o := &order{ack: ack, waits: urgency == Awaited, easy: urgency == Easy}
	switch v {
	case VerbFinish:
		o.verb = verbFinish
	case VerbRelease:
		o.verb = verbRelease
	case VerbTouch:
		o.verb = verbTouch
	case VerbBury:
		o.verb = verbBury
	default:
		done(Settled{Err: fmt.Errorf("verb %q is not known", v)})
		return
	}
	o.settled = func(r Settled) {
		q.after(ack, r)
		done(r)
	}
	if err := q.settler.add(o); err != nil {
		done(Settled{Err: &UnavailableError{Cause: err}})
	}
}

// after passes on what a verb did.
func (q *Queue) after(ack Ack, r Settled) {
	if r.Flight != nil {
		q.sink.Ended(*r.Flight)
	}
	if r.Died != nil {
		q.sink.Died(*r.Died)
	}
	if r.Err != nil {
		return
	}
	switch r.State {
	case Ready:
		q.sink.Ready(q.BucketOf(ack.ID), r.Topic)
	case Delayed:
		// The ticker learns from Redis when that is.
		q.tickers[q.BucketOf(ack.ID)].wakeIn(0)
	default: // in flight again, dead, or gone: nobody waits for that
	}
}

// Look makes all tickers run at once: a replica that watched their buckets leaves.
func (q *Queue) Look() {
	for _, t := range q.tickers {
		t.wakeIn(0)
	}
}

// Expect makes the ticker of a bucket run after d at the latest: a deadline is due then.
func (q *Queue) Expect(bucket int, d time.Duration) { q.tickers[bucket].wakeIn(d) }

// Pulse is a sign of life of one bucket's ticker, by the local clock. Zero times: never.
type Pulse struct {
	// Run is when it last did its work, Turn when it last tried.
	Run, Turn time.Time
	// Ahead is how far the bucket's time is ahead of Redis's clock, which went back.
	Ahead time.Duration
}

// Pulses gives the signs of life of all tickers.
func (q *Queue) Pulses() []Pulse {
	pulses := make([]Pulse, len(q.tickers))
	for b, t := range q.tickers {
		if ns := t.lastRun.Load(); ns > 0 {
			pulses[b].Run = time.Unix(0, ns)
		}
		if ns := t.lastTurn.Load(); ns > 0 {
			pulses[b].Turn = time.Unix(0, ns)
		}
		pulses[b].Ahead = time.Duration(t.ahead.Load())
	}
	return pulses
}
