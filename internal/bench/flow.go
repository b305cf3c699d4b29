package bench

import (
	"context"
	"fmt"
	"time"
)

// quiet is how long a run listens on after its last job for what should not come.
const quiet = 300 * time.Millisecond

// Lateness pushes at a rate, with delays drawn evenly, and measures how late each job comes.
func Lateness(ctx context.Context, o Options) (Result, error) {
	o.Outstanding = 0
	return run(ctx, o, "lateness", func(ctx context.Context, s *session) (Result, error) {
		began := s.Now()
		return s.flow(ctx, time.Time{}, func(moments []time.Time) (int, time.Duration) {
			return len(moments), moments[len(moments)-1].Sub(began)
		})
	})
}

// Drain pushes jobs that are all due at one moment and measures how long it takes until all are taken and finished.
func Drain(ctx context.Context, o Options) (Result, error) {
	at := o.Now().Add(o.MaxDelay)
	o.Outstanding = 0
	return run(ctx, o, "drain", func(ctx context.Context, s *session) (Result, error) {
		return s.flow(ctx, at, func(moments []time.Time) (int, time.Duration) {
			return len(moments), moments[len(moments)-1].Sub(at)
		})
	})
}

// Steady pushes, delivers and finishes, all at once, at a rate or as fast as it goes with no more than Outstanding jobs
// under way. What is measured is the middle of it: the deliveries from a fifth of the jobs to four fifths.
func Steady(ctx context.Context, o Options) (Result, error) {
	return run(ctx, o, "steady", func(ctx context.Context, s *session) (Result, error) {
		return s.flow(ctx, time.Time{}, func(moments []time.Time) (int, time.Duration) {
			from, to := len(moments)/5, len(moments)*4/5
			return to - from, moments[to].Sub(moments[from])
		})
	})
}

// flow pushes all jobs, due at one moment where that is set, and waits until they were delivered. measured gives how many
// jobs the figure is of, and how long they took, from the moments at which all came.
func (s *session) flow(ctx context.Context, at time.Time, measured func([]time.Time) (int, time.Duration)) (Result, error) {
	stop, err := s.work()
	if err != nil {
		return Result{}, err
	}
	defer stop()
	p, err := s.pusher(at)
	if err != nil {
		return Result{}, err
	}
	began := s.Now()
	if err = p.all(ctx); err != nil {
		return Result{}, err
	}
	pushing := s.Now().Sub(began)
	due := s.Now().Add(s.MaxDelay)
	if !at.IsZero() {
		if s.Now().After(at) {
			return Result{}, fmt.Errorf("pushing took longer than the delay of %s: take a longer one", s.MaxDelay)
		}
		due = at
	}
	if err = s.came(ctx, due); err != nil {
		return Result{}, err
	}
	r := Result{Jobs: s.Jobs, PushedPerSecond: float64(s.Jobs) / pushing.Seconds()}
	s.tally.check(&r)
	moments := s.tally.moments()
	if len(moments) == 0 {
		return r, nil // all are lost, and it says so
	}
	jobs, length := measured(moments)
	r.Seconds = length.Seconds()
	if length > 0 {
		r.PerSecond = float64(jobs) / r.Seconds
	}
	return r, nil
}

// came waits until all jobs were delivered, or nothing more comes when the last is due.
func (s *session) came(ctx context.Context, due time.Time) error {
	moved := func() int64 {
		if s.Now().Before(due) {
			return s.Now().UnixNano() // what is not due yet is no fault
		}
		return s.Progress.delivered.Load()
	}
	all := func() bool { return s.Progress.delivered.Load() == int64(s.Jobs) }
	if err := s.wait(ctx, s.Patience, moved, all); err != nil {
		return err
	}
	return pause(ctx, quiet)
}
