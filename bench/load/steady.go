package load

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	steadyDelay = time.Second
	// steadyWarm is the longest warm-up: it ends as soon as as many jobs were delivered as may be under way.
	steadyWarm = 30 * time.Second
	// steadyMost bounds the tally: jobs a second that no peer reaches here.
	steadyMost = 100_000
)

// Steady pushes jobs with a delay of one second in the fastest way, delivers and acks them, all at once, as fast as it
// goes while no more than Outstanding jobs are under way. The loop is closed, so a backlog cannot grow.
func Steady(ctx context.Context, r *Run) (Figure, error) {
	before, err := r.Peer.Stored(ctx)
	if err != nil {
		return Figure{}, err
	}
	length := time.Duration(r.Sizes.Seconds) * time.Second
	t := r.tally(int((length + steadyWarm).Seconds()) * steadyMost)
	stop, err := r.Peer.Work(ctx, r.Workers, t.take)
	if err != nil {
		return Figure{}, err
	}
	defer stop()

	var pushed atomic.Int64
	var enough atomic.Bool
	failed := make(chan error, 1)
	go func() { failed <- r.keepUp(ctx, t, &pushed, &enough) }()
	end := func() error { enough.Store(true); return <-failed }

	f, err := r.steadyPart(ctx, t, length)
	if failure := end(); failure != nil {
		err = failure
	}
	if err != nil {
		return Figure{}, err
	}
	jobs := int(pushed.Load())
	if err := r.delivered(ctx, t, jobs, 20*time.Millisecond); err != nil {
		return Figure{}, err
	}
	if err := r.settled(ctx, before); err != nil {
		return Figure{}, err
	}
	t.check(&f, jobs)
	f.Workers, f.Lateness = r.Workers, t.lateness(jobs/3, jobs)
	return f, nil
}

// steadyPart measures what is delivered after a warm-up.
func (r *Run) steadyPart(ctx context.Context, t *tally, length time.Duration) (Figure, error) {
	latest := r.Now().Add(steadyWarm)
	err := wait(ctx, 20*time.Millisecond, "the loop has turned once", func() (bool, error) {
		return t.delivered.Load() >= int64(r.Sizes.Outstanding) || r.Now().After(latest), nil
	})
	if err != nil {
		return Figure{}, err
	}
	m, err := startMeter(r.Peer.Processes())
	if err != nil {
		return Figure{}, err
	}
	began, from := r.Now(), t.delivered.Load()
	if err = r.until(ctx, began.Add(length)); err != nil {
		return Figure{}, err
	}
	f := Figure{Jobs: int(t.delivered.Load() - from), Seconds: r.Now().Sub(began).Seconds()}
	f.PerSecond = float64(f.Jobs) / f.Seconds
	return f, m.stop(&f, f.Jobs)
}

// keepUp pushes while there is room, until it is enough.
func (r *Run) keepUp(ctx context.Context, t *tally, pushed *atomic.Int64, enough *atomic.Bool) error {
	p, err := r.fastest(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	room := func() (bool, error) {
		return enough.Load() || pushed.Load()-t.delivered.Load() < int64(r.Sizes.Outstanding), nil
	}
	for i := range len(t.due) {
		if pushed.Load()-t.delivered.Load() >= int64(r.Sizes.Outstanding) {
			if err := wait(ctx, time.Millisecond, "there is room", room); err != nil {
				return err
			}
		}
		if enough.Load() {
			break
		}
		due := r.Peer.Due(r.Now(), steadyDelay)
		if err := p.Push(ctx, t.give(i, due), due); err != nil {
			return err
		}
		pushed.Add(1)
	}
	return p.Flush(ctx)
}
