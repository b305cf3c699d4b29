package bench

import (
	"context"
	"time"
)

// far is the delay of jobs that are not to become due.
const far = time.Hour

// Push measures confirmed pushes of jobs that are due much later; they are removed at the end.
func Push(ctx context.Context, o Options) (Result, error) {
	return run(ctx, o, "push", pending)
}

// pending pushes all jobs.
func pending(ctx context.Context, s *session) (Result, error) {
	s.MinDelay, s.MaxDelay, s.Outstanding = far, far, 0
	p, err := s.pusher(time.Time{})
	if err != nil {
		return Result{}, err
	}
	began := s.Now()
	if err := p.all(ctx); err != nil {
		return Result{}, err
	}
	r := Result{Jobs: s.Jobs, Seconds: s.Now().Sub(began).Seconds()}
	r.PerSecond = float64(r.Jobs) / r.Seconds
	r.PushedPerSecond = r.PerSecond
	return r, nil
}
