package bridge

import (
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

// maxOver bounds how many ended deliveries that are not known are remembered.
const maxOver = 100_000

// flightKey names a delivery: tokens are unique in a bucket.
type flightKey struct {
	bucket int
	token  uint64
}

// flight is a delivery of this replica, from its reservation until it is settled, returned, or over. While it is in
// the dispatcher's map it takes a place in its topic's window. All fields are guarded by the dispatcher's mutex.
type flight struct {
	key     flightKey
	topic   *topic
	id      string
	lease   delay.Lease
	ttr     time.Duration
	attempt int
	due     time.Time
	// before is how the delivery before it ended; empty: it is the first.
	before delay.Ending
	// base is what is known of Redis's clock; late is how long after its due time it was published, by Redis's clock.
	base delay.Reading
	late time.Duration
	// pop is the pop that waits for it, nil for subscribers; pops take no place in the window.
	pop *waiter
	// silent: nobody listened. answered: the worker has answered. settling: with a verb that ends the flight, so there is
	// nothing to confirm.
	silent, answered, settling bool
	// refused: a stream that listened said no. why is the reason for which it goes back, see metrics.go.
	refused bool
	why     string
	// trace is nil where the job is not traced.
	trace *flightTrace
	// dropped: it could not be sent at all.
	dropped bool
	// taken: a stream has it. sorted: its batch was decided, so that what is said of it now comes late.
	taken, sorted bool
	// leased is when it was reserved, certain when it was known that it was delivered: then its TTR began.
	leased, certain time.Time
	// ask is when Redis is asked whether it still flies, gap how long after that again: it may have been settled where
	// nobody could tell, and a TTR is too long to keep its place for nothing.
	ask time.Time
	gap time.Duration
}

// fly notes a delivery that was leased, and gives nil where it was ended already.
func (d *dispatcher) fly(t *topic, v *delay.Delivery, leased time.Time, base delay.Reading) *flight {
	key := flightKey{v.Bucket, v.Token}
	if _, over := d.over[key]; over {
		delete(d.over, key)
		return nil
	}
	f := &flight{
		key: key, topic: t, id: v.ID, lease: v.Lease, ttr: v.TTR, attempt: v.Attempt, before: v.Before, due: v.DueAt,
		ask: leased.Add(patience), gap: patience, leased: leased,
		base: base,
	}
	d.flights[f.key] = f
	return f
}

// left is what is left of the TTR, at least a ms; 0 where there is none.
func (f *flight) left(now time.Time) time.Duration {
	elapsed := now.Sub(f.certain)
	switch {
	case f.ttr == 0:
		return 0
	case elapsed < 0, elapsed > delay.LeaseTime: // no lease lasts so long: the local clock was set
		return f.ttr
	}
	return max(f.ttr-elapsed, time.Millisecond)
}

// landing notes that a call that leased jobs has its answer. The caller holds mu.
func (d *dispatcher) landing() {
	if d.leasing--; d.leasing == 0 {
		clear(d.over)
	}
}

// end takes a flight out of the window. One that is not there was ended before, or is not known yet.
func (d *dispatcher) end(keys ...flightKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		f := d.flights[key]
		if f == nil {
			if d.leasing > 0 && len(d.over) < maxOver {
				d.over[key] = struct{}{}
			}
			continue
		}
		delete(d.flights, key)
		delete(d.awaiting, key)
		if f.pop == nil {
			f.topic.out--
		}
		f.topic.used = d.now()
		d.enqueue(f.topic)
	}
	if len(d.flights) == 0 {
		d.noteLanded()
	}
}

// unheard notes that a delivery found no listener.
func (d *dispatcher) unheard(key flightKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.flights[key]; f != nil {
		f.silent = true
	}
}

// drop notes that a delivery could not be sent.
func (d *dispatcher) drop(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.dropped = true
}

// answered notes that the worker of a delivery has answered: whoever answers has it. It reports whether there is no hurry
// to carry it out: the topic's window has room, and the TTR is far from its end.
func (d *dispatcher) answered(key flightKey, settling bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.flights[key]
	if f == nil {
		return false
	}
	f.answered = true
	f.settling = f.settling || settling
	return f.topic.out <= d.window/2 && f.ttr >= patientTTR && d.now().Sub(f.leased) < f.ttr/2
}

// doubtful gives flights that are out for long, each after growing pauses.
func (d *dispatcher) doubtful() []*flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	var long []*flight
	now := d.now()
	for _, f := range d.flights {
		if now.After(f.ask) {
			f.gap = min(2*f.gap, maxPatience)
			f.ask = now.Add(f.gap)
			long = append(long, f)
		}
	}
	return long
}

// follow notes what is traced of a flight; nil: nothing is.
func (d *dispatcher) follow(f *flight, trace *flightTrace) {
	if trace == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.trace = trace
}

// traceOf gives what is traced of a flight.
func (d *dispatcher) traceOf(key flightKey) *flightTrace {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.flights[key]; f != nil {
		return f.trace
	}
	return nil
}

// noteLanded wakes whoever waits for the flights to end. The caller holds mu.
func (d *dispatcher) noteLanded() {
	select {
	case d.landed <- struct{}{}:
	default:
	}
}
