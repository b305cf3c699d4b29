package bridge

import (
	"context"
	"errors"
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
		close(b.passed)
	}
}

// confirmer decides batch after batch what is certain, until batches is closed and empty.
// ctx is for its calls to Redis and outlives the handing out.
func (d *dispatcher) confirmer(ctx context.Context) {
	for b := range d.batches {
		d.await(b)
		d.decide(ctx, b)
	}
}

// await waits for the barrier of a batch and notes in b.err why nothing of it is certain.
func (d *dispatcher) await(b *batch) {
	deadline := time.NewTimer(barrierTimeout)
	defer deadline.Stop()
	check := time.NewTicker(linkCheck)
	defer check.Stop()
	for b.err == nil {
		select {
		case <-b.passed:
			if d.link.Stats().Reconnects != b.reconnects {
				b.err = errReconnected
			}
			d.awaitRefusals(deadline.C)
			return
		case <-check.C:
			if !d.link.IsConnected() || d.link.Stats().Reconnects != b.reconnects {
				b.err = errReconnected
			}
		case <-deadline.C:
			b.err = errNoBarrier
			d.link.cut()
		}
	}
	d.mu.Lock()
	delete(d.barriers, b.number)
	d.mu.Unlock()
}

// awaitRefusals waits until the refusals to publish that came before the barrier were told.
func (d *dispatcher) awaitRefusals(deadline <-chan time.Time) {
	if d.link.caughtUp() {
		return
	}
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	for !d.link.caughtUp() {
		select {
		case <-check.C:
		case <-deadline:
			return
		}
	}
}

// decide confirms what is certain and gives the rest back.
func (d *dispatcher) decide(ctx context.Context, b *batch) {
	if b.err != nil {
		d.metrics.trouble("deliver", b.err)
	}
	certain, back := d.sort(b)
	if len(certain) > 0 {
		d.confirm(ctx, b, certain)
	}
	if len(back) > 0 {
		d.giveBack(ctx, back)
		d.expire(ctx, back)
	}
}

// expireLook is how many jobs at the head of a list are looked at for their expiry when nobody listens.
const expireLook = 1000

// expire makes jobs dead that came too late on topics where nobody listens.
func (d *dispatcher) expire(ctx context.Context, flights []*flight) {
	d.mu.Lock()
	look := make(map[*topic]bool)
	for _, f := range flights {
		if f.topic.silent && f.topic.expiring && f.silent {
			look[f.topic] = true
			f.topic.expiring = false
		}
	}
	d.mu.Unlock()
	for t := range look {
		for bucket := range d.buckets {
			died, later, err := d.queue.Expire(ctx, bucket, t.name, expireLook)
			if err != nil {
				d.metrics.trouble("expire", err)
			}
			for _, job := range died {
				d.died(job)
			}
			if later > 0 || err != nil {
				d.expects(t.name)
			}
		}
	}
}

// expects notes that a topic may have ready jobs that expire.
func (d *dispatcher) expects(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topic(name).expiring = true
}

// sort divides a batch into what was delivered and what was not, and notes which topics have listeners.
func (d *dispatcher) sort(b *batch) (certain, back []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	quiet := make(map[*topic]bool)
	for _, f := range b.flights {
		switch {
		case d.flights[f.key] != f:
			// It was settled, and with that its flight ended.
		case f.answered:
			if f.pop == "" {
				quiet[f.topic] = false
			}
		case b.err != nil:
			back = append(back, f)
		case f.pop != "" && f.silent:
			back = append(back, f) // who asked is gone; that says nothing of subscribers
		case f.pop != "":
			certain = append(certain, f)
		case f.silent || d.link.deniedSince(d.subjects.ready(f.topic.name), b.refusals):
			back = append(back, f)
			if _, known := quiet[f.topic]; !known {
				quiet[f.topic] = true
			}
		default:
			certain = append(certain, f)
			quiet[f.topic] = false
		}
	}
	for t, silent := range quiet {
		if silent {
			d.silence(t)
		} else {
			d.heard(t)
		}
	}
	if b.err != nil {
		d.probeAgain(back)
	}
	return certain, back
}

// probeAgain lets silent topics be tried again although nothing was learned of them. The caller holds mu.
func (d *dispatcher) probeAgain(flights []*flight) {
	for _, f := range flights {
		if f.topic.silent && !f.topic.due {
			d.rest(f.topic)
		}
	}
}

// confirm tells Redis of certain deliveries, again and again while it is away and the leases hold.
func (d *dispatcher) confirm(ctx context.Context, b *batch, flights []*flight) {
	published := d.now()
	for {
		elapsed := d.now().Sub(published)
		leases := make([]delay.Lease, len(flights))
		for i, f := range flights {
			leases[i] = delay.Lease{ID: f.id, Token: f.key.token, TTR: f.ttr}
			if f.ttr > 0 {
				leases[i].TTR = max(f.ttr-elapsed, time.Millisecond)
			}
		}
		done, err := d.queue.Confirm(ctx, leases)
		if err == nil {
			d.delivered(flights, done)
			return
		}
		d.metrics.trouble("confirm", err)
		if d.now().Sub(b.leased) > confirmUntil || ctx.Err() != nil {
			d.endAll(flights)
			return
		}
		pause(ctx, setback)
	}
}

// delivered counts confirmed deliveries, and ends the flights of those that are over already.
func (d *dispatcher) delivered(flights []*flight, done []bool) {
	var over []flightKey
	now := d.now()
	for i, f := range flights {
		if !done[i] {
			over = append(over, f.key)
			continue
		}
		d.metrics.delivered(f)
		d.events.delivered(f, now)
		if f.ttr == 0 {
			over = append(over, f.key)
			continue
		}
		d.queue.Expect(f.key.bucket, f.ttr)
	}
	d.mu.Lock()
	for _, f := range flights {
		f.until = now.Add(f.ttr)
	}
	d.mu.Unlock()
	d.end(over...)
}

// giveBack returns leases. Where Redis does not hear it, they run out.
func (d *dispatcher) giveBack(ctx context.Context, flights []*flight) {
	leases := make([]delay.Lease, len(flights))
	for i, f := range flights {
		leases[i] = delay.Lease{ID: f.id, Token: f.key.token}
	}
	if _, err := d.queue.Return(ctx, leases); err != nil {
		d.metrics.trouble("return", err)
	}
	for _, f := range flights {
		d.ready(f.key.bucket, f.topic.name)
	}
	d.endAll(flights)
	d.metrics.returned.Add(float64(len(flights)))
}

func (d *dispatcher) endAll(flights []*flight) {
	keys := make([]flightKey, len(flights))
	for i, f := range flights {
		keys[i] = f.key
	}
	d.end(keys...)
}
