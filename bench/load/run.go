package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dqbridge/dqbridge/bench/peers"
)

// Sizes say how much work there is.
type Sizes struct {
	// Jobs of a push, a batches or a drain run.
	Jobs int
	// Size is the bytes of a body.
	Size int
	// Seconds is how long steady is measured, and lateness pushes.
	Seconds int
	// Outstanding is how many jobs steady has given in and not seen back, at most.
	Outstanding int
	// Memory is the jobs that are pending when memory is measured.
	Memory int
	// Pending is how many other jobs are there throughout, due much later.
	Pending int
}

// ErrUnknown says that the peer has no such way of pushing.
var ErrUnknown = errors.New("the peer has no such way")

// far is the delay of what is not to become due.
const far = 6 * time.Hour

// Run puts work on one started peer.
type Run struct {
	Peer  peers.Peer
	Sizes Sizes
	Now   func() time.Time
	// Workers is for the workloads that have some.
	Workers int
	// tags counts the tallies, which must not share one.
	tags atomic.Int64
}

func (r *Run) tally(jobs int) *tally {
	return newTally(r.Now, fmt.Sprintf("%d-%d", r.Now().UnixMilli(), r.tags.Add(1)), jobs, r.Sizes.Size)
}

// pusher is never nil without an error.
func (r *Run) pusher(ctx context.Context, mode peers.Mode) (peers.Pusher, error) {
	p, err := r.Peer.NewPusher(ctx, mode)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, ErrUnknown
	}
	return p, nil
}

// fastest is the way in where that is not what is measured.
func (r *Run) fastest(ctx context.Context) (peers.Pusher, error) {
	p, err := r.pusher(ctx, peers.Flow)
	if errors.Is(err, ErrUnknown) {
		return r.pusher(ctx, peers.Single)
	}
	return p, err
}

// fill gives n jobs in that are due much later, and waits until all are confirmed.
func (r *Run) fill(ctx context.Context, p peers.Pusher, n int) error {
	t := r.tally(n)
	for i := range n {
		due := r.Peer.Due(r.Now(), far)
		if err := p.Push(ctx, t.give(i, due), due); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}

// Preload gives in the jobs that are pending throughout.
func (r *Run) Preload(ctx context.Context) error {
	if r.Sizes.Pending == 0 {
		return nil
	}
	p, err := r.fastest(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	return r.fill(ctx, p, r.Sizes.Pending)
}

// wait polls a condition until it holds.
func wait(ctx context.Context, every time.Duration, what string, condition func() (bool, error)) error {
	check := time.NewTicker(every)
	defer check.Stop()
	for {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		select {
		case <-check.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}

// until waits for a moment.
func (r *Run) until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(at.Sub(r.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settled waits until no more than before is stored: all acks have arrived.
func (r *Run) settled(ctx context.Context, before int) error {
	return wait(ctx, 5*time.Millisecond, "all is acked", func() (bool, error) {
		stored, err := r.Peer.Stored(ctx)
		return stored <= before, err
	})
}
