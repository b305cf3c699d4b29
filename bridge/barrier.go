package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// barrierTimeout is how long a barrier may take; then the connection is dropped, so that nothing of the batch
	// can arrive later.
	barrierTimeout = 2500 * time.Millisecond
	// linkCheck is how often a waiting batch looks whether its connection is still the one it was published on.
	linkCheck = 50 * time.Millisecond
	// confirmUntil is the age of a lease at which a confirm is no longer repeated.
	confirmUntil = delay.LeaseTime - time.Second
)

var (
	errReconnected = errors.New("the connection was lost while a batch was out")
	errNoBarrier   = errors.New("the server did not answer a batch in time")
)

// pass notes that a barrier came back: whatever the server had to say of the batch before it was said.
func (d *dispatcher) pass(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.barriers[number]; b != nil {
		delete(d.barriers, number)
		d.fence()
		close(b.passed)
	}
}

// confirmer decides batch after batch what is certain, until batches is closed and empty; then it closes held.
// ctx is for its calls to Redis and outlives the handing out.
func (d *dispatcher) confirmer(ctx context.Context) {
	defer close(d.held)
	check := time.NewTimer(linkCheck)
	defer check.Stop()
	for b := range d.batches {
		d.await(b, check)
		d.decide(ctx, b)
	}
}

// await waits for the barrier of a batch and notes in b.err why nothing of it is certain. The timer is its own to set.
func (d *dispatcher) await(b *batch, check *time.Timer) {
	deadline := d.now().Add(barrierTimeout)
	for b.err == nil {
		check.Reset(linkCheck)
		select {
		case <-b.passed:
			if d.link.Stats().Reconnects != b.reconnects {
				b.err = errReconnected
			}
			d.awaitRefusals(deadline)
			return
		case <-check.C:
			switch {
			case !d.link.IsConnected() || d.link.Stats().Reconnects != b.reconnects:
				b.err = errReconnected
			case !d.now().Before(deadline):
				b.err = errNoBarrier
				d.link.cut()
			}
		}
	}
	d.mu.Lock()
	delete(d.barriers, b.number)
	d.fence()
	d.mu.Unlock()
}

// awaitRefusals waits until the refusals to publish that came before the barrier were told.
func (d *dispatcher) awaitRefusals(deadline time.Time) {
	if d.link.caughtUp() {
		return
	}
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	for !d.link.caughtUp() && d.now().Before(deadline) {
		<-check.C
	}
}

// decide confirms what is certain and gives the rest back.
func (d *dispatcher) decide(ctx context.Context, b *batch) {
	if b.err != nil {
		d.metrics.trouble("deliver", b.err)
	}
	certain, settled, back := d.sort(b)
	d.count(slices.Concat(certain, settled))
	if now := d.hold(certain); len(now) > 0 {
		d.confirm(ctx, now)
	}
	if len(back) > 0 {
		d.giveBack(ctx, back)
		d.expiry.look(d.takeExpiring(back))
	}
}

// count notes that deliveries are certain from now on, and tells the world.
func (d *dispatcher) count(flights []*flight) {
	now := d.now()
	for _, f := range flights {
		f.certain = now
		d.events.delivered(f, now)
		d.trace.delivered(f)
	}
	d.metrics.delivered(flights, now)
}

// sort divides a batch into what was delivered and must be confirmed, what was delivered and is settled already, and
// what was not delivered; and it notes which topics have listeners.
func (d *dispatcher) sort(b *batch) ([]*flight, []*flight, []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var certain, settled, back []*flight
	heard := make(map[*topic]bool)
	noStreams := d.captures.none()
	for _, f := range b.flights {
		denied := f.pop == nil && d.link.deniedSince(d.subjects.ready(f.topic.name), b.refusals)
		if denied {
			d.metrics.errors.WithLabelValues("publish: denied").Inc()
		}
		unheard, capture := f.silent || denied, d.capture(f, noStreams)
		f.sorted = true
		switch d.fate(b, f, unheard, capture) {
		case fateOver:
			continue
		case fateSettled:
			settled = append(settled, f)
		case fateBack:
			f.why = f.returnedFor(denied)
			back = append(back, f)
		case fateAwaits:
			d.awaiting[f.key] = f
		case fateCertain:
			certain = append(certain, f)
		}
		// A pop says nothing of subscribers, neither does a batch that failed, and a stream speaks for itself.
		if f.pop == nil && (f.answered || b.err == nil) && (unheard || capture != captureConfirms) {
			heard[f.topic] = heard[f.topic] || f.answered || !unheard
		}
	}
	d.draw(b, heard)
	return certain, settled, back
}

// fate is what a decided batch comes to for one delivery.
type fate int

const (
	// fateOver: it could not be sent, its lease ran out, or somebody removed the job.
	fateOver fate = iota
	// fateSettled: it was delivered and is settled already.
	fateSettled
	// fateBack: it was not delivered.
	fateBack
	// fateAwaits: its stream has the last word.
	fateAwaits
	// fateCertain: it was delivered.
	fateCertain
)

// fate decides on one delivery. The caller holds mu.
func (d *dispatcher) fate(b *batch, f *flight, unheard bool, c capture) fate {
	landed := d.flights[f.key] != f
	switch {
	case f.dropped:
		return fateOver
	case f.settling, landed && b.err == nil && !unheard:
		return fateSettled
	case landed:
		return fateOver
	case !f.answered && !f.taken && (b.err != nil || unheard):
		return fateBack
	case f.ttr == 0 && (c == captureConfirms || c == captureUnknown):
		return fateAwaits
	}
	return fateCertain
}

// draw takes the conclusions of a batch for its topics. A silent topic of which nothing was learned is tried again.
// The caller holds mu.
func (d *dispatcher) draw(b *batch, heard map[*topic]bool) {
	for t, somebody := range heard {
		if somebody {
			d.heard(t)
		} else {
			d.silence(t)
		}
	}
	for _, f := range b.flights {
		if _, known := heard[f.topic]; !known && f.topic.silent && !f.topic.due {
			d.rest(f.topic)
		}
	}
}

// confirm tells Redis of certain deliveries, again and again while it is away and their leases hold.
func (d *dispatcher) confirm(ctx context.Context, flights []*flight) {
	for len(flights) > 0 {
		leases := make([]delay.Lease, len(flights))
		for i, f := range flights {
			leases[i] = f.lease
			leases[i].TTR = f.left(d.now())
		}
		done, err := d.queue.Confirm(ctx, leases)
		if err == nil {
			d.delivered(flights, done)
			return
		}
		d.metrics.trouble("confirm", err)
		holdBack(ctx)
		flights = d.confirmable(ctx, flights)
	}
}

// confirmable ends the flights whose leases are about to run out, all where ctx is over, and gives the others.
func (d *dispatcher) confirmable(ctx context.Context, flights []*flight) []*flight {
	now := d.now()
	var young, old []*flight
	for _, f := range flights {
		if ctx.Err() == nil && now.Sub(f.leased) < confirmUntil {
			young = append(young, f)
		} else {
			old = append(old, f)
		}
	}
	d.endAll(old)
	return young
}

// delivered ends the flights of confirmed deliveries that are over already.
func (d *dispatcher) delivered(flights []*flight, done []bool) {
	var over []flightKey
	for i, f := range flights {
		if !done[i] || f.ttr == 0 {
			over = append(over, f.key)
			continue
		}
		d.queue.Expect(f.key.bucket, f.ttr)
	}
	d.end(over...)
}

// giveBack returns leases. Where Redis does not hear it, they run out.
func (d *dispatcher) giveBack(ctx context.Context, flights []*flight) {
	leases := make([]delay.Lease, len(flights))
	for i, f := range flights {
		leases[i] = f.lease
	}
	if _, err := d.queue.Return(ctx, leases); err != nil {
		d.metrics.trouble("return", err)
	}
	for _, f := range flights {
		d.ready(f.key.bucket, f.topic.name)
	}
	d.endAll(flights)
	for _, f := range flights {
		d.metrics.returned.of(f.why).Inc()
		d.trace.returned(f, f.why)
	}
}

// returnedFor gives the reason for which a delivery goes back. The caller holds mu.
func (f *flight) returnedFor(denied bool) string {
	switch {
	case denied:
		return returnedDenied
	case f.refused:
		return returnedStream
	case f.silent:
		return returnedNobody
	}
	return returnedLost
}

func (d *dispatcher) endAll(flights []*flight) {
	keys := make([]flightKey, len(flights))
	for i, f := range flights {
		keys[i] = f.key
	}
	d.end(keys...)
}
