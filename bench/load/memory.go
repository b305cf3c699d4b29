package load

import (
	"context"
	"time"
)

// Memory measures what a pending job takes: of Redis as it says itself, of the others the process's.
func Memory(ctx context.Context, r *Run) (Figure, error) {
	p, err := r.fastest(ctx)
	if err != nil {
		return Figure{}, err
	}
	defer p.Close()
	if err = r.fill(ctx, p, 100); err != nil { // what the first job brings with it is not counted
		return Figure{}, err
	}
	before, err := r.Peer.Memory(ctx)
	if err != nil {
		return Figure{}, err
	}
	began := r.Now()
	if err = r.fill(ctx, p, r.Sizes.Memory); err != nil {
		return Figure{}, err
	}
	f := Figure{Jobs: r.Sizes.Memory, Seconds: r.Now().Sub(began).Seconds()}
	f.PerSecond = float64(f.Jobs) / f.Seconds
	if err = r.until(ctx, r.Now().Add(2*time.Second)); err != nil { // buffers are given back
		return Figure{}, err
	}
	after, err := r.Peer.Memory(ctx)
	if err != nil {
		return Figure{}, err
	}
	f.Bytes = float64(after-before) / float64(f.Jobs)
	return f, nil
}
