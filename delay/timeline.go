package delay

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Timeline is how many delayed jobs become due when; the spans are disjoint, and what is overdue is in the first.
type Timeline struct {
	Minute, FiveMinutes, Hour, Day, Later int64
}

// Timeline counts the delayed jobs by due time.
func (s *Store) Timeline(ctx context.Context) (Timeline, error) {
	now, err := s.clock(ctx)
	if err != nil {
		return Timeline{}, err
	}
	n, err := s.countDue(ctx, []time.Time{
		now.Add(time.Minute), now.Add(5 * time.Minute), now.Add(time.Hour), now.Add(24 * time.Hour),
	})
	if err != nil {
		return Timeline{}, err
	}
	return Timeline{Minute: n[0], FiveMinutes: n[1], Hour: n[2], Day: n[3], Later: n[4]}, nil
}

// Due is how many delayed jobs become due in each slot of a time to come.
type Due struct {
	// From is when the first slot begins, by Redis's clock: now.
	From  time.Time
	Slots []int64
	// Overdue are those that are due already, Later those that are due behind the last slot.
	Overdue, Later int64
}

// Due counts the delayed jobs by due time, in so many slots of a step each.
func (s *Store) Due(ctx context.Context, step time.Duration, slots int) (Due, error) {
	now, err := s.clock(ctx)
	if err != nil {
		return Due{}, err
	}
	edges := make([]time.Time, slots+1)
	for i := range edges {
		edges[i] = now.Add(time.Duration(i) * step)
	}
	n, err := s.countDue(ctx, edges)
	if err != nil {
		return Due{}, err
	}
	return Due{From: now, Slots: n[1 : slots+1], Overdue: n[0], Later: n[slots+1]}, nil
}

// clock gives the time by Redis's clock, to the millisecond.
func (s *Store) clock(ctx context.Context) (time.Time, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read timeline: %w", unavailable(err))
	}
	return now.Add(s.shift()).Truncate(time.Millisecond), nil
}

// countDue counts the delayed jobs between edges that rise: before the first, from each to the next, from the last on. Each
// count costs Redis a microsecond or two, whatever the number of jobs.
func (s *Store) countDue(ctx context.Context, edges []time.Time) ([]int64, error) {
	// A ZCOUNT with "(" leaves its limit out.
	lower, upper := []string{"-inf"}, []string{}
	for _, at := range edges {
		edge := strconv.FormatInt(at.UnixMilli(), 10)
		lower, upper = append(lower, edge), append(upper, "("+edge)
	}
	upper = append(upper, "+inf")
	counts := make([]*redis.IntCmd, 0, len(s.buckets)*len(lower))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			for i := range lower {
				counts = append(counts, pipe.ZCount(ctx, s.buckets[b].fixed[keyBucket], lower[i], upper[i]))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", unavailable(err))
	}
	sums := make([]int64, len(lower))
	for i, count := range counts {
		sums[i%len(sums)] += count.Val()
	}
	return sums, nil
}
