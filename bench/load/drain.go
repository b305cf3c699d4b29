package load

import (
	"context"
	"fmt"
	"time"
)

// drainPush is the slowest rate of pushing, jobs a second, that the delay of a drain leaves time for.
const drainPush = 8000

// Drain measures how long jobs take that are all due at one moment, from that moment until all are delivered and acked.
func Drain(ctx context.Context, r *Run) (Figure, error) {
	if _, err := r.drain(ctx, warm); err != nil {
		return Figure{}, fmt.Errorf("warm up: %w", err)
	}
	return r.drain(ctx, r.Sizes.Jobs)
}

func (r *Run) drain(ctx context.Context, jobs int) (Figure, error) {
	before, err := r.Peer.Stored(ctx)
	if err != nil {
		return Figure{}, err
	}
	t := r.tally(jobs)
	stop, err := r.Peer.Work(ctx, r.Workers, t.take)
	if err != nil {
		return Figure{}, err
	}
	defer stop()
	due := r.Now().Add(2*time.Second + time.Duration(jobs)*time.Second/drainPush).Truncate(time.Second).Add(time.Second)
	if err = r.dueAt(ctx, t, jobs, due); err != nil {
		return Figure{}, err
	}
	if err = r.until(ctx, due.Add(-700*time.Millisecond)); err != nil { // rounded delays are due up to half a second before
		return Figure{}, err
	}
	m, err := startMeter(r.Peer.Processes())
	if err != nil {
		return Figure{}, err
	}
	if err = r.delivered(ctx, t, jobs, time.Millisecond); err != nil {
		return Figure{}, err
	}
	if err = r.settled(ctx, before); err != nil {
		return Figure{}, err
	}
	ended := r.Now()
	earliest, begun := t.span(jobs)
	f := Figure{Jobs: jobs, Workers: r.Workers, Seconds: ended.Sub(earliest).Seconds(), Lateness: t.lateness(0, jobs)}
	f.PerSecond = float64(jobs) / f.Seconds
	f.FromFirst = float64(jobs) / ended.Sub(begun).Seconds()
	t.check(&f, jobs)
	return f, m.stop(&f, jobs)
}

// dueAt gives jobs in, all due at one moment as far as the peer can.
func (r *Run) dueAt(ctx context.Context, t *tally, jobs int, due time.Time) error {
	p, err := r.fastest(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range jobs {
		now := r.Now()
		at := r.Peer.Due(now, due.Sub(now))
		if err := p.Push(ctx, t.give(i, at), at); err != nil {
			return err
		}
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if late := r.Now().Sub(due.Add(-700 * time.Millisecond)); late > 0 {
		return fmt.Errorf("pushing %d jobs took too long by %s", jobs, late)
	}
	return nil
}

// delivered looks every so often until all jobs were delivered, as long as there is progress.
func (r *Run) delivered(ctx context.Context, t *tally, jobs int, every time.Duration) error {
	const patience = 30 * time.Second
	last, at := int64(-1), r.Now()
	return wait(ctx, every, "all is delivered", func() (bool, error) {
		n := t.delivered.Load()
		if n != last {
			last, at = n, r.Now()
		} else if r.Now().Sub(at) > patience {
			return false, fmt.Errorf("%d of %d jobs came, and none for %s", n, jobs, patience)
		}
		return n == int64(jobs), nil
	})
}
