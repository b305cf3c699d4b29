package delay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ActivePlace is where a look through the active topics goes on: the zero value is the beginning.
type ActivePlace struct {
	// score is of the last topic read, ms; skip is how many topics of that score were read.
	score, skip int64
}

// Active gives topics of a bucket that have ready jobs, from a place on, by how long they have had them. The next place
// is the zero value at the end.
func (s *Store) Active(ctx context.Context, bucket int, from ActivePlace, limit int) ([]string, ActivePlace, error) {
	found, err := s.client.ZRangeByScoreWithScores(ctx, s.buckets[bucket].fixed[keyActive], &redis.ZRangeBy{
		Min: strconv.FormatInt(from.score, 10), Max: "+inf", Offset: from.skip, Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, ActivePlace{}, fmt.Errorf("read active topics: %w", unavailable(err))
	}
	topics := make([]string, 0, len(found))
	next := from
	for _, z := range found {
		topic, _ := z.Member.(string)
		topics = append(topics, topic)
		if score := int64(z.Score); score != next.score {
			next = ActivePlace{score: score}
		}
		next.skip++
	}
	if len(found) < limit {
		return topics, ActivePlace{}, nil
	}
	return topics, next, nil
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
			found := t.add(counts[b].Val()[4*i:4*i+4], int64(since[b].Val()[i]))
			before = before || b < first && found
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

// add takes in the counters of one bucket and since when, ms, it has ready jobs of the topic; 0: it has none. It reports
// whether the bucket has jobs of the topic.
func (t *TopicCounts) add(counts []any, since int64) bool {
	found := false
	for i, sum := range []*int64{&t.Delayed, &t.Ready, &t.InFlight, &t.Dead} {
		n := number(counts[i])
		*sum += n
		found = found || n > 0
	}
	if since > 0 && (t.ReadySince.IsZero() || since < t.ReadySince.UnixMilli()) {
		t.ReadySince = time.UnixMilli(since)
	}
	return found
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
