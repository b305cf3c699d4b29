package bridge

import (
	"context"
	"time"
)

const (
	// confirmAfter is how long a certain delivery waits for its worker: one that has answered by then needs no confirm,
	// which is a sixth of what a job costs Redis. A replica that dies meanwhile costs a lease instead of a TTR.
	confirmAfter = 150 * time.Millisecond
	// patientTTR is the shortest time to run of a delivery that may wait so.
	patientTTR = 2 * time.Second
	// heldBatches bounds how many batches may wait.
	heldBatches = 1024
)

// held is what of a batch waits to be confirmed.
type held struct {
	flights           []*flight
	leased, published time.Time
}

// hold lets certain deliveries wait, and gives those that must be confirmed at once.
func (d *dispatcher) hold(leased time.Time, certain []*flight) []*flight {
	var now, later []*flight
	for _, f := range certain {
		if f.ttr < patientTTR {
			now = append(now, f)
		} else {
			later = append(later, f)
		}
	}
	if len(later) == 0 {
		return now
	}
	select {
	case d.held <- held{later, leased, d.now()}:
		return now
	default:
		return certain
	}
}

// confirmHeld confirms what has waited long enough and is still out, until held is closed and empty.
func (d *dispatcher) confirmHeld(ctx context.Context) {
	for h := range d.held {
		d.waitUntil(h.published.Add(confirmAfter))
		if open := d.unsettled(h.flights); len(open) > 0 {
			d.confirm(ctx, h.leased, h.published, open)
		}
	}
}

// waitUntil waits for a moment that is near, or until nothing more is handed out.
func (d *dispatcher) waitUntil(at time.Time) {
	timer := time.NewTimer(min(at.Sub(d.now()), confirmAfter)) // the local clock may have been set back
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopping:
	}
}

// unsettled gives the flights that are not over, and that no verb is ending.
func (d *dispatcher) unsettled(flights []*flight) []*flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []*flight
	for _, f := range flights {
		if d.flights[f.key] == f && !f.settling {
			open = append(open, f)
		}
	}
	return open
}
