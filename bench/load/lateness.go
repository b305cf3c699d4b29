package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dqbridge/dqbridge/bench/peers"
)

// The delays of a lateness run, drawn evenly.
const minDelay, maxDelay = time.Second, 5 * time.Second

// quiet is how long a run listens on after its last job for what should not come.
const quiet = 300 * time.Millisecond

// Lateness measures at 500 jobs a second, pushed one by one, how late each comes.
func Lateness(ctx context.Context, r *Run) (Figure, error) {
	return r.latenessAt(ctx, 500, func(ctx context.Context) (peers.Pusher, error) { return r.pusher(ctx, peers.Single) })
}

// LatenessFast does so at 10,000 a second, pushed in the fastest way.
func LatenessFast(ctx context.Context, r *Run) (Figure, error) {
	return r.latenessAt(ctx, 10_000, r.fastest)
}

func (r *Run) latenessAt(ctx context.Context, rate int, wayIn func(context.Context) (peers.Pusher, error)) (Figure, error) {
	before, err := r.Peer.Stored(ctx)
	if err != nil {
		return Figure{}, err
	}
	jobs := rate * r.Sizes.Seconds
	t := r.tally(jobs)
	stop, err := r.Peer.Work(ctx, r.Workers, t.take)
	if err != nil {
		return Figure{}, err
	}
	defer stop()
	p, err := wayIn(ctx)
	if err != nil {
		return Figure{}, err
	}
	defer p.Close()
	m, err := startMeter(r.Peer.Processes())
	if err != nil {
		return Figure{}, err
	}
	began := r.Now()
	if err = r.paced(ctx, p, t, rate, jobs); err != nil {
		return Figure{}, err
	}
	pushing := r.Now().Sub(began)
	if err = r.delivered(ctx, t, jobs, 20*time.Millisecond); err != nil {
		return Figure{}, err
	}
	if err = r.settled(ctx, before); err != nil {
		return Figure{}, err
	}
	f := Figure{Jobs: jobs, Workers: r.Workers, Seconds: pushing.Seconds(), Asked: float64(rate)}
	f.PerSecond = float64(jobs) / f.Seconds
	if err = m.stop(&f, jobs); err != nil {
		return Figure{}, err
	}
	if err = r.until(ctx, r.Now().Add(quiet)); err != nil {
		return Figure{}, err
	}
	t.check(&f, jobs)
	f.Lateness = t.lateness(jobs/10, jobs) // the first tenth is to warm up
	return f, nil
}

// paced gives jobs in at a rate.
func (r *Run) paced(ctx context.Context, p peers.Pusher, t *tally, rate, jobs int) error {
	began := r.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range jobs {
		turn := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if ahead := turn.Sub(r.Now()); ahead > 0 {
			timer.Reset(ahead)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		due := r.Peer.Due(r.Now(), minDelay+rand.N(maxDelay-minDelay))
		if err := p.Push(ctx, t.give(i, due), due); err != nil {
			return err
		}
	}
	return p.Flush(ctx)
}
