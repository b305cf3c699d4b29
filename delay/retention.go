package delay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	retainEvery = 2 * time.Second
	// retainBatch bounds how many dead jobs are dropped in one step because there are too many.
	retainBatch = 500
)

// retention drops dead jobs that are too old, and the oldest where there are too many.
type retention struct {
	store *Store
	sink  Sink
	// age and most are the limits; 0: none.
	age  time.Duration
	most int
}

func (r *retention) run(ctx context.Context) {
	if r.age == 0 && r.most == 0 {
		return
	}
	for {
		timer := time.NewTimer(retainEvery/2 + rand.N(retainEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := r.drop(ctx); err != nil && ctx.Err() == nil {
			r.sink.Trouble("drop dead jobs", err)
		}
	}
}

func (r *retention) drop(ctx context.Context) error {
	for bucket := range r.store.Buckets() {
		for full := r.age > 0; full && ctx.Err() == nil; {
			old, _, err := r.store.Retain(ctx, bucket, r.age, nil)
			if err != nil {
				return err
			}
			r.tell(old, 0)
			full = old == maxBatch
		}
	}
	for r.most > 0 && ctx.Err() == nil {
		more, err := r.shorten(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// shorten drops the oldest of too many dead jobs and reports whether there are still more.
func (r *retention) shorten(ctx context.Context) (bool, error) {
	counts, err := r.store.Counts(ctx)
	if err != nil {
		return false, err
	}
	excess := int(counts.Dead) - r.most
	if excess <= 0 {
		return false, nil
	}
	n := min(excess, retainBatch)
	oldest, err := r.store.oldestDead(ctx, n)
	if err != nil {
		return false, err
	}
	slices.SortFunc(oldest, func(a, b deadAt) int { return a.at.Compare(b.at) })
	byBucket := make([][]string, r.store.Buckets())
	for _, d := range oldest[:min(n, len(oldest))] {
		b := r.store.BucketOf(d.id)
		byBucket[b] = append(byBucket[b], d.id)
	}
	dropped := 0
	for b, ids := range byBucket {
		if len(ids) == 0 {
			continue
		}
		_, named, err := r.store.Retain(ctx, b, 0, ids)
		if err != nil {
			return false, err
		}
		dropped += named
	}
	r.tell(0, dropped)
	return dropped > 0 && excess > n, nil
}

func (r *retention) tell(old, over int) {
	if old+over > 0 {
		r.sink.Dropped(old, over)
	}
}

// deadAt is a dead job and when it died.
type deadAt struct {
	id string
	at time.Time
}

// oldestDead gives the first n dead jobs of each bucket, by time of death.
func (s *Store) oldestDead(ctx context.Context, n int) ([]deadAt, error) {
	first := make([]*redis.ZSliceCmd, len(s.buckets))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			first[b] = pipe.ZRangeWithScores(ctx, s.buckets[b].fixed[keyDead], 0, int64(n-1))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read dead jobs: %w", unavailable(err))
	}
	var oldest []deadAt
	for _, f := range first {
		for _, z := range f.Val() {
			id, _ := z.Member.(string)
			oldest = append(oldest, deadAt{unpackID(id), time.UnixMilli(int64(z.Score))})
		}
	}
	return oldest, nil
}
