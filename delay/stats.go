package delay

import (
	"context"
	"fmt"
	"math"
	"strconv"
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

// Timeline is how many delayed jobs become due when; the spans are disjoint, and what is overdue is in the first.
type Timeline struct {
	Minute, FiveMinutes, Hour, Day, Later int64
}

// Timeline counts the delayed jobs by due time.
func (s *Store) Timeline(ctx context.Context) (Timeline, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return Timeline{}, fmt.Errorf("read timeline: %w", unavailable(err))
	}
	var t Timeline
	spans := []*int64{&t.Minute, &t.FiveMinutes, &t.Hour, &t.Day, &t.Later}
	// A ZCOUNT with "(" leaves its limit out.
	lower := []string{"-inf"}
	upper := []string{}
	for _, d := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour} {
		edge := strconv.FormatInt(now.Add(s.shift()+d).UnixMilli(), 10)
		lower, upper = append(lower, edge), append(upper, "("+edge)
	}
	upper = append(upper, "+inf")
	counts := make([]*redis.IntCmd, 0, len(s.buckets)*len(spans))
	_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			for i := range spans {
				counts = append(counts, pipe.ZCount(ctx, s.buckets[b].fixed[keyBucket], lower[i], upper[i]))
			}
		}
		return nil
	})
	if err != nil {
		return Timeline{}, fmt.Errorf("read timeline: %w", unavailable(err))
	}
	for i, count := range counts {
		*spans[i%len(spans)] += count.Val()
	}
	return t, nil
}
