package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
)

// far is the delay of jobs that are not to become due.
const far = time.Hour

// Push measures confirmed pushes of jobs that are due much later; they are removed at the end. Where they come through a
// stream, it measures until the bridge holds them all.
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
	if p.streamed.Load() {
		if err := s.held(ctx); err != nil {
			return Result{}, err
		}
	}
	r := Result{Jobs: s.Jobs, Seconds: s.Now().Sub(began).Seconds()}
	r.PerSecond = float64(r.Jobs) / r.Seconds
	r.PushedPerSecond = r.PerSecond
	return r, nil
}

// held waits until the bridge holds all jobs.
func (s *session) held(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	const again = 10 * time.Millisecond
	for {
		var page client.TopicPage
		if _, err := client.New(s.nc, s.Prefix).Admin(ctx, "topics", client.TopicListing{Match: s.Topic + ".*"}, &page); err != nil {
			return fmt.Errorf("look for what came through the stream: %w", err)
		}
		held := 0
		for _, t := range page.Topics {
			held += int(t.Delayed)
		}
		if held >= s.Jobs {
			return nil
		}
		if err := pause(ctx, again); err != nil {
			return fmt.Errorf("the bridge holds %d of %d jobs: %w", held, s.Jobs, err)
		}
	}
}
