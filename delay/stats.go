package delay

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

// Counts is the number of jobs in each state.
type Counts struct {
	Delayed, Ready, InFlight, Dead int64
	// Oldest is when the first delayed job is due by Redis's clock; zero: there is none.
	Oldest time.Time
}

// Counts reads the totals of all buckets, each at its own instant.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	totals := make([]*redis.SliceCmd, len(s.buckets))
	first := make([]*redis.ZSliceCmd, len(s.buckets))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			totals[b] = pipe.HMGet(ctx, s.buckets[b].fixed[keyTopics], "d", "r", "i", "x")
			first[b] = pipe.ZRangeWithScores(ctx, s.buckets[b].fixed[keyBucket], 0, 0)
		}
		return nil
	})
	if err != nil {
		return Counts{}, fmt.Errorf("read counts: %w", unavailable(err))
	}
	var c Counts
	earliest := math.Inf(1)
	for b := range s.buckets {
		values := totals[b].Val()
		for i, sum := range []*int64{&c.Delayed, &c.Ready, &c.InFlight, &c.Dead} {
			*sum += number(values[i])
		}
		for _, z := range first[b].Val() {
			earliest = math.Min(earliest, z.Score)
		}
	}
	if !math.IsInf(earliest, 1) {
		c.Oldest = time.UnixMilli(int64(earliest))
	}
	return c, nil
}
