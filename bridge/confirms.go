package bridge

import (
	"context"
	"slices"
	"time"
)

const (
	// confirmAfter is how long a certain delivery waits for its worker: one that has answered by then needs no confirm,
	// which is a sixth of what a job costs Redis. A replica that dies meanwhile costs a lease instead of a TTR.
	confirmAfter = 150 * time.Millisecond
	// confirmEvery is how long the first waits on, so that many are looked at together.
	confirmEvery = 50 * time.Millisecond
	// patientTTR is the shortest time to run of a delivery that may wait so.
	patientTTR = 2 * time.Second
	// heldBatches bounds how many batches may wait, confirmAtOnce how many deliveries are confirmed together, about.
	heldBatches   = 1024
	confirmAtOnce = 4096
)

// hold lets certain deliveries wait, and gives those that must be confirmed at once.
func (d *dispatcher) hold(certain []*flight) []*flight {
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
	case d.held <- later:
		return now
	default:
		return certain
	}
}

// confirmHeld confirms what has waited and is still out, until held is closed and empty. All whose time has come go
// together: however slow Redis is, it keeps up.
func (d *dispatcher) confirmHeld(ctx context.Context) {
	var waiting [][]*flight
	for {
		if len(waiting) == 0 {
			batch, more := <-d.held
			if !more {
				return
			}
			waiting = append(waiting, batch)
		}
		d.waitUntil(ripeAt(waiting[0]).Add(confirmEvery))
		for len(d.held) > 0 && len(waiting) < heldBatches {
			waiting = append(waiting, <-d.held)
		}
		n := ripe(waiting, d.now())
		if open := d.unsettled(slices.Concat(waiting[:n]...)); len(open) > 0 {
			d.confirm(ctx, open)
		}
		waiting = waiting[n:]
	}
}

// ripe gives how many of the batches that wait are confirmed together: the first, and those whose time has come.
func ripe(waiting [][]*flight, now time.Time) int {
	flights := 0
	for n, batch := range waiting {
		if n > 0 && (ripeAt(batch).After(now) || flights >= confirmAtOnce) {
			return n
		}
		flights += len(batch)
	}
	return len(waiting)
}

// ripeAt is when a batch that waits is to be confirmed.
func ripeAt(batch []*flight) time.Time { return batch[0].certain.Add(confirmAfter) }

// waitUntil waits for a moment that is near, or until nothing more is handed out.
func (d *dispatcher) waitUntil(at time.Time) {
	timer := time.NewTimer(min(at.Sub(d.now()), confirmAfter+confirmEvery)) // the local clock may have been set back
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
