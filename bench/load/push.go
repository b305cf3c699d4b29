package load

import (
	"context"
	"fmt"

	"github.com/dqbridge/dqbridge/bench/peers"
)

// warm is how many jobs go through before a clock starts.
const warm = 5000

// Push measures confirmed single pushes of jobs that are due much later.
func Push(ctx context.Context, r *Run) (Figure, error) { return r.push(ctx, peers.Single) }

// Batches measures the fastest confirmed way in.
func Batches(ctx context.Context, r *Run) (Figure, error) { return r.push(ctx, peers.Batch) }

func (r *Run) push(ctx context.Context, mode peers.Mode) (Figure, error) {
	p, err := r.pusher(ctx, mode)
	if err != nil {
		return Figure{}, err
	}
	defer p.Close()
	if err = r.fill(ctx, p, warm); err != nil {
		return Figure{}, err
	}
	before, err := r.Peer.Stored(ctx)
	if err != nil {
		return Figure{}, err
	}
	m, err := startMeter(r.Peer.Processes())
	if err != nil {
		return Figure{}, err
	}
	began := r.Now()
	if err = r.fill(ctx, p, r.Sizes.Jobs); err != nil {
		return Figure{}, err
	}
	f := Figure{Jobs: r.Sizes.Jobs, Seconds: r.Now().Sub(began).Seconds()}
	f.PerSecond = float64(f.Jobs) / f.Seconds
	if err = m.stop(&f, f.Jobs); err != nil {
		return Figure{}, err
	}
	after, err := r.Peer.Stored(ctx)
	if err != nil {
		return Figure{}, fmt.Errorf("count what was pushed: %w", err)
	}
	f.Lost = max(0, before+f.Jobs-after)
	f.Twice = max(0, after-before-f.Jobs)
	return f, nil
}
