package delay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writers is how many calls are on their way at once: one is carried out while the next is made.
	writers = 2
	// takeJobs and takeBytes bound what a writer takes at once, but for an array, which it takes whole; so many as takeLeast
	// it takes in any case. levelTime is how far back it looks for how many there are.
	takeJobs  = 1024
	takeBytes = 4 << 20
	takeLeast = 8
	levelTime = time.Second
	// queueBytes bounds the pushes that wait (an array that is larger is taken where none do: it would never fit, and its
	// message is in memory already), queueAcks the verbs somebody waits for; those nobody waits for have a
	// reserve of their own, since their senders would not repeat them.
	queueBytes  = 64 << 20
	queueAcks   = 1 << 18
	reserveAcks = 1 << 20
	// overdue is how long what wants a reply may wait before its call is sent; later its sender has given up.
	overdue = 2 * time.Second
	// retryPause keeps a writer from spinning while Redis is away.
	retryPause = 100 * time.Millisecond
	// easyWait is how long a verb that is in no hurry waits for others to share a call with, easyMost how many of them wait.
	easyWait = 40 * time.Millisecond
	easyMost = 64
	// probeTime is how long a call may take after one that Redis did not answer: what waits meanwhile is answered sooner.
	probeTime = time.Second
)

type verb int

const (
	verbPush verb = iota
	verbFinish
	verbRelease
	verbTouch
	verbBury
	verbs
)

// order is a push or a verb on its way to the store.
type order struct {
	verb   verb
	job    *Job // of a push
	ack    Ack
	pushed func(Pushed)
	// settled is called once; an order that nobody waits for is repeated until Redis takes it.
	settled func(Settled)
	waits   bool
	// easy: it need not be carried out at once.
	easy bool
	// bound: the next order of the queue goes with it into one batch.
	bound bool
	// began is when it was first queued, since when it was last.
	began, since time.Time
}

func (o *order) bytes() int {
	const own = 256
	if o.job == nil {
		return own
	}
	return len(o.job.Body) + len(o.job.Headers) + own
}

// writer batches pushes and verbs in front of a store without waiting for a batch to fill: it takes all that is
// queued as soon as its last call is back. So one order alone goes at once, and a thousand go in one pipeline.
type writer struct {
	store *Store
	now   func() time.Time

	mu      sync.Mutex
	queue   []*order
	bytes   int
	acks    int
	stopped bool
	// carried is how many orders the calls have that are on their way.
	carried int
	// level and levelBefore are the most there were with those in the queue, since levelSince and in the levelTime before.
	level, levelBefore int
	levelSince         time.Time
	// easy are orders that are in no hurry, since easySince; later is the timer that wakes a writer for them.
	easy      []*order
	easySince time.Time
	later     *time.Timer
	// unanswered says that the last call had no answer.
	unanswered atomic.Bool
	// wake has room for one note a writer: that the queue is not empty, or that the writer is stopped.
	wake chan struct{}
	done sync.WaitGroup
}

func newWriter(store *Store, now func() time.Time) *writer {
	return &writer{store: store, now: now, wake: make(chan struct{}, writers)}
}

// start runs the writers until stop; ctx is for their calls alone.
func (w *writer) start(ctx context.Context) {
	for range writers {
		w.done.Go(func() { w.run(ctx) })
	}
}

// stop refuses new orders, waits until those that are queued are carried out, and returns.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for range writers {
		w.nudge()
	}
	w.done.Wait()
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// add queues pushes, which stay together, or one verb, or says why it cannot: then nothing is called back.
func (w *writer) add(orders ...*order) error {
	if len(orders) == 0 {
		return nil
	}
	now, bytes := w.now(), 0
	for i, o := range orders {
		o.since, o.bound = now, i < len(orders)-1
		if o.began.IsZero() {
			o.began = now
		}
		bytes += o.bytes()
	}
	first := orders[0]
	w.mu.Lock()
	switch {
	case w.stopped:
		w.mu.Unlock()
		return ErrStopped
	case first.verb == verbPush && w.bytes > 0 && w.bytes+bytes > queueBytes,
		first.verb != verbPush && w.acks >= queueAcks && (first.waits || w.acks >= reserveAcks):
		w.mu.Unlock()
		return ErrBusy
	}
	for _, o := range orders {
		w.weigh(o, 1)
	}
	wait := first.easy && len(w.easy) < easyMost
	if wait {
		w.delay(first, now)
	} else {
		w.queue = append(w.queue, orders...)
	}
	w.mu.Unlock()
	if !wait {
		w.nudge()
	}
	return nil
}

// delay lets an order wait for others to go with. The caller holds mu.
func (w *writer) delay(o *order, now time.Time) {
	if len(w.easy) == 0 {
		w.easySince = now
		if w.later == nil {
			w.later = time.AfterFunc(easyWait, w.nudge)
		} else {
			w.later.Reset(easyWait)
		}
	}
	w.easy = append(w.easy, o)
}

// ripen queues the orders that are in no hurry where they have waited for long enough, or something goes to Redis by the
// time they will have. The caller holds mu.
func (w *writer) ripen() {
	n := len(w.easy)
	if n == 0 {
		return
	}
	waited := w.now().Sub(w.easySince)
	if w.stopped || n >= easyMost || waited >= easyWait || len(w.queue) > 0 && waited >= easyWait/2 {
		w.queue = append(w.queue, w.easy...)
		clear(w.easy)
		w.easy = w.easy[:0]
		w.later.Stop()
	}
}

// weigh counts an order in or out. The caller holds mu.
func (w *writer) weigh(o *order, sign int) {
	if o.verb == verbPush {
		w.bytes += sign * o.bytes()
	} else {
		w.acks += sign
	}
}

// share gives how many orders a writer may take. Of pushes it is half of what was there lately, and none where another writer
// is on its way with more than wait: so that two halves take turns, one in Redis while the other is answered and its
// publishers push again. All in one call would leave Redis and the rest to wait for each other. The caller holds mu.
func (w *writer) share() int {
	waiting := len(w.queue)
	switch {
	case w.acks > len(w.easy) || w.stopped:
		return takeJobs
	case waiting < w.carried:
		return 0
	}
	if now := w.now(); now.Sub(w.levelSince) > levelTime {
		w.level, w.levelBefore, w.levelSince = 0, w.level, now
	}
	w.level = max(w.level, waiting+w.carried)
	return min(max((max(w.level, w.levelBefore)+1)/writers, takeLeast), takeJobs)
}

// take gives what the next call carries, by verb, and whether there was anything.
func (w *writer) take() ([verbs][]*order, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch [verbs][]*order
	w.ripen()
	most := w.share()
	if most == 0 { // the call that is waited for wakes its own writer
		return batch, false
	}
	n, bytes, bound := 0, 0, false
	for n < len(w.queue) && (bound || n < most && bytes < takeBytes) {
		o := w.queue[n]
		bound = o.bound
		w.weigh(o, -1)
		bytes += o.bytes()
		batch[o.verb] = append(batch[o.verb], o)
		w.queue[n] = nil
		n++
	}
	w.carried += n
	w.queue = w.queue[n:]
	if len(w.queue) > 0 {
		w.nudge()
		return batch, n > 0
	}
	w.queue = nil
	return batch, n > 0
}

func (w *writer) run(ctx context.Context) {
	for {
		batch, found := w.take()
		if !found {
			w.mu.Lock()
			over := w.stopped && len(w.queue)+len(w.easy) == 0
			w.mu.Unlock()
			if over {
				w.nudge()
				return
			}
			<-w.wake
			continue
		}
		failed := w.carryOut(ctx, batch)
		w.mu.Lock()
		for _, orders := range batch {
			w.carried -= len(orders)
		}
		w.mu.Unlock()
		if len(failed) > 0 {
			w.nudge() // what waits need not wait for the pause too
			w.repeat(ctx, failed)
		}
	}
}

// repeat puts verbs that nobody waits for back, at the head of the queue, after a pause. When the writers are stopped
// they are given up: their jobs come again after their TTR.
func (w *writer) repeat(ctx context.Context, failed []*order) {
	pause := time.NewTimer(retryPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	stopped := w.stopped
	if !stopped {
		w.queue = append(failed, w.queue...)
		for _, o := range failed {
			w.weigh(o, 1)
		}
	}
	w.mu.Unlock()
	if stopped {
		for _, o := range failed {
			o.settled(Settled{Err: &UnavailableError{Maybe: true, Cause: ErrStopped}})
		}
	}
}

// carryOut sends a batch, answers its orders, and gives the verbs that Redis did not take and nobody waits for.
func (w *writer) carryOut(ctx context.Context, batch [verbs][]*order) []*order {
	if w.unanswered.Load() {
		short, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		ctx = short
	}
	pushes := w.inTime(batch[verbPush])
	jobs := make([]*Job, len(pushes))
	for i, o := range pushes {
		jobs[i] = o.job
	}
	pushing := w.store.pushing(jobs)
	calls := pushing.calls
	var settling [verbs]work[Settled]
	for v := verbFinish; v < verbs; v++ {
		batch[v] = w.inTime(batch[v])
		acks := make([]Ack, len(batch[v]))
		for i, o := range batch[v] {
			acks[i] = o.ack
		}
		settling[v] = w.store.settling(v, acks)
		calls = append(calls, settling[v].calls...)
	}
	_ = w.store.send(ctx, calls...) // each call has its own error
	for i, result := range pushing.results() {
		w.note(result.Err)
		pushes[i].pushed(result)
	}
	var failed []*order
	for v := verbFinish; v < verbs; v++ {
		results := settling[v].results()
		for _, result := range results {
			w.note(result.Err)
		}
		failed = append(failed, settled(batch[v], results)...)
	}
	return failed
}

// note remembers whether Redis answered.
func (w *writer) note(err error) {
	away, is := errors.AsType[*UnavailableError](err)
	if silent := is && away.Maybe && !away.Odd && !errors.Is(err, errFewReplicas); w.unanswered.Load() != silent {
		w.unanswered.Store(silent)
	}
}

// settled answers orders with their results and gives those that are to be repeated.
func settled(orders []*order, results []Settled) []*order {
	var failed []*order
	for i, result := range results {
		if _, away := errors.AsType[*UnavailableError](result.Err); away && !orders[i].waits {
			failed = append(failed, orders[i])
			continue
		}
		orders[i].settled(result)
	}
	return failed
}

// inTime answers what waited too long for somebody who has given up, and gives the rest.
func (w *writer) inTime(orders []*order) []*order {
	now := w.now()
	kept := orders[:0]
	for _, o := range orders {
		switch {
		case !o.waits || now.Sub(o.since) <= overdue:
			kept = append(kept, o)
		case o.verb == verbPush:
			o.pushed(Pushed{Err: &UnavailableError{Cause: ErrOverdue}})
		default:
			o.settled(Settled{Err: &UnavailableError{Cause: ErrOverdue}})
		}
	}
	return kept
}
