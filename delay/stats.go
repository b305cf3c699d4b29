package delay

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Active gives topics of a bucket that have ready jobs, from a cursor on, by how long they have had them.
// The next cursor is 0 at the end.
func (s *Store) Active(ctx context.Context, bucket int, cursor int64, limit int) (topics []string, next int64, err error) {
	found, err := s.client.ZRangeByScoreWithScores(ctx, s.buckets[bucket].fixed[keyActive], &redis.ZRangeBy{
		Min: strconv.FormatInt(cursor, 10), Max: "+inf", Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read active topics: %w", unavailable(err))
	}
	for _, z := range found {
		topic, _ := z.Member.(string)
		topics = append(topics, topic)
	}
	if len(found) < limit {
		return topics, 0, nil
	}
	// Topics of one millisecond may not all fit a page: then the next page begins with the same score.
	last := int64(found[len(found)-1].Score)
	if last == cursor {
		last++
	}
	return topics, last, nil
}

// ReadyBuckets gives the buckets whose list of a topic is not empty.
func (s *Store) ReadyBuckets(ctx context.Context, topic string) ([]int, error) {
	lengths := make([]*redis.IntCmd, len(s.buckets))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			lengths[b] = pipe.LLen(ctx, s.buckets[b].lists+topic)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read lists of topic: %w", unavailable(err))
	}
	var buckets []int
	for b, length := range lengths {
		if length.Val() > 0 {
			buckets = append(buckets, b)
		}
	}
	return buckets, nil
}

// stale is how many entries the lists of topics have beyond their ready jobs, in one bucket.
func (s *Store) stale(ctx context.Context, bucket int, topics []string) ([]int, error) {
	lengths := make([]*redis.IntCmd, len(topics))
	fields := make([]string, len(topics))
	var ready *redis.SliceCmd
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, topic := range topics {
			lengths[i] = pipe.LLen(ctx, s.buckets[bucket].lists+topic)
			fields[i] = "r:" + topic
		}
		ready = pipe.HMGet(ctx, s.buckets[bucket].fixed[keyTopics], fields...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read lists: %w", unavailable(err))
	}
	stale := make([]int, len(topics))
	for i := range topics {
		stale[i] = int(lengths[i].Val() - number(ready.Val()[i]))
	}
	return stale, nil
}

// Counts is the number of jobs in each state.
type Counts struct {
	Delayed, Ready, InFlight, Dead int64
	// Oldest is when the first delayed job is due by Redis's clock; zero: there is none.
	Oldest time.Time
}

// TopicCounts are the figures of one topic.
type TopicCounts struct {
	Topic string
	Counts
	// ReadySince is since when it has had ready jobs without a break; zero: it has none.
	ReadySince time.Time
}

// Topics reads the counters of some topics from a cursor on, over all buckets. The next cursor is 0 at the end.
// A topic comes with the first bucket that has jobs of it, so a listing gives it once.
func (s *Store) Topics(ctx context.Context, cursor uint64, limit int) ([]TopicCounts, uint64, error) {
	n := uint64(len(s.buckets))
	bucket, position := int(cursor%n), cursor/n
	fields, next, err := s.client.HScan(ctx, s.buckets[bucket].fixed[keyTopics], position, "?:*", int64(limit)).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read topics: %w", unavailable(err))
	}
	names := make(map[string]bool)
	for i := 0; i+1 < len(fields); i += 2 {
		if stateOf(fields[i][0]) != Unknown {
			names[fields[i][2:]] = true
		}
	}
	topics, err := s.CountTopics(ctx, bucket, slices.Sorted(maps.Keys(names)))
	switch {
	case err != nil:
		return nil, 0, err
	case next != 0:
		return topics, next*n + uint64(bucket), nil
	case bucket+1 < len(s.buckets):
		return topics, uint64(bucket + 1), nil
	}
	return topics, 0, nil
}

// CountTopics reads the counters of topics. Those that a bucket before first has jobs of are left out.
func (s *Store) CountTopics(ctx context.Context, first int, names []string) ([]TopicCounts, error) {
	if len(names) == 0 {
		return nil, nil
	}
	fields := make([]string, 0, 4*len(names))
	for _, name := range names {
		fields = append(fields, "d:"+name, "r:"+name, "i:"+name, "x:"+name)
	}
	counts := make([]*redis.SliceCmd, len(s.buckets))
	since := make([]*redis.FloatSliceCmd, len(s.buckets))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for b := range s.buckets {
			counts[b] = pipe.HMGet(ctx, s.buckets[b].fixed[keyTopics], fields...)
			since[b] = pipe.ZMScore(ctx, s.buckets[b].fixed[keyActive], names...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", unavailable(err))
	}
	var topics []TopicCounts
	for i, name := range names {
		t := TopicCounts{Topic: name}
		before := false
		for b := range s.buckets {
			values := counts[b].Val()[4*i : 4*i+4]
			for j, sum := range []*int64{&t.Delayed, &t.Ready, &t.InFlight, &t.Dead} {
				n := number(values[j])
				*sum += n
				before = before || b < first && n > 0
			}
			if ms := int64(since[b].Val()[i]); ms > 0 && (t.ReadySince.IsZero() || ms < t.ReadySince.UnixMilli()) {
				t.ReadySince = time.UnixMilli(ms)
			}
		}
		if t.Ready == 0 {
			t.ReadySince = time.Time{}
		}
		if !before {
			topics = append(topics, t)
		}
	}
	return topics, nil
}

// TopicNumber counts the topics that have jobs, over all buckets. It reads their names in pages, so with 100,000 topics
// it takes some tens of milliseconds, and never holds Redis.
func (s *Store) TopicNumber(ctx context.Context) (int, error) {
	names := make(map[string]struct{})
	for b := range s.buckets {
		scan := s.client.HScan(ctx, s.buckets[b].fixed[keyTopics], 0, "?:*", topicsPage).Iterator()
		for field := true; scan.Next(ctx); field = !field {
			if name := scan.Val(); field && stateOf(name[0]) != Unknown {
				names[name[2:]] = struct{}{}
			}
		}
		if err := scan.Err(); err != nil {
			return 0, fmt.Errorf("count topics: %w", unavailable(err))
		}
	}
	return len(names), nil
}

// topicsPage is how many counters one read of them takes.
const topicsPage = 1000

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

// Info reads what Redis says of itself, by field.
func (s *Store) Info(ctx context.Context) (map[string]string, error) {
	info, err := s.client.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read info: %w", unavailable(err))
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// Paused reads which topics are paused.
func (s *Store) Paused(ctx context.Context) ([]string, error) {
	topics, err := s.client.HKeys(ctx, s.space.topics()).Result()
	if err != nil {
		return nil, fmt.Errorf("read paused topics: %w", unavailable(err))
	}
	return topics, nil
}

// Pause stops the delivery of a topic, for all replicas. since is for people who look.
func (s *Store) Pause(ctx context.Context, topic string, since time.Time) error {
	if err := s.client.HSetNX(ctx, s.space.topics(), topic, since.UnixMilli()).Err(); err != nil {
		return fmt.Errorf("pause topic: %w", unavailable(err))
	}
	return nil
}

// Resume ends a pause.
func (s *Store) Resume(ctx context.Context, topic string) error {
	if err := s.client.HDel(ctx, s.space.topics(), topic).Err(); err != nil {
		return fmt.Errorf("resume topic: %w", unavailable(err))
	}
	return nil
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
