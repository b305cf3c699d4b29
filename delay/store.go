package delay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	layoutVersion = "1"
	// maxBatch and maxBatchBytes bound what one script handles, so that it holds Redis for 2 ms at the most.
	maxBatch      = 128
	maxBatchBytes = 1 << 20
)

// Store changes the state of jobs in Redis: one method for each script, no loops, no goroutines.
// Its methods take jobs of any buckets and send one pipeline. They are safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	space   keyspace
	buckets []bucketKeys
	// watches has for each bucket the watch that this replica keeps, µs, noWatch where it does not know (clock.lua).
	watches []atomic.Int64
	// retired says that this replica leaves: it keeps no watch any more.
	retired  atomic.Bool
	maxDelay time.Duration
	// waitReplicas is how many replicas of Redis must hold a push before it counts; 0: none.
	waitReplicas int
	id           string
	// named counts the ids that were made, from a random number on; lane is in each of them (naming.go).
	named, lane atomic.Uint64
	// cluster follows redirections; it is idle on one Redis.
	cluster cluster
	// meter hears of the calls, whose time is told by now; nil: nobody does.
	meter Meter
	now   func() time.Time
	// shift is added to Redis's clock; only tests set it.
	shift func() time.Duration
}

const (
	// noWatch says of a watch that it is not known: nothing was asked yet, or a call had no answer.
	noWatch = -1
	// retiredWatch is of a replica that leaves.
	retiredWatch = -2
	// watchAhead is how far ahead a watch may be; the scripts have it too.
	watchAhead = time.Second
)

// StoreOptions say what a store is; all of them hold for its whole life.
type StoreOptions struct {
	// Prefix begins every key.
	Prefix  string
	Buckets int
	// MaxDelay is the longest delay that is taken.
	MaxDelay time.Duration
	// WaitReplicas is how many replicas of Redis must hold a push before it is confirmed; 0: none.
	WaitReplicas int
}

// NewStore makes a store. Nothing is read or written before Open.
func NewStore(client redis.UniversalClient, o StoreOptions) *Store {
	s := &Store{
		client: client, space: keyspace{o.Prefix}, maxDelay: o.MaxDelay, waitReplicas: o.WaitReplicas,
		watches: make([]atomic.Int64, o.Buckets),
		shift:   func() time.Duration { return 0 },
	}
	for b := range o.Buckets {
		s.buckets = append(s.buckets, s.space.bucket(b))
		s.watches[b].Store(noWatch)
	}
	return s
}

// keepWatch notes the watch of a bucket after a promote that knew of another one, kept. A push may have taken one meanwhile:
// of two that are not over the earlier one holds.
func (s *Store) keepWatch(bucket int, kept, watch int64) {
	if w := &s.watches[bucket]; !w.CompareAndSwap(kept, watch) && watch > 0 && watch < w.Load() {
		w.Store(watch)
	}
}

// Retire gives up the watches of this replica, which leaves: the others are to be told to look for themselves.
func (s *Store) Retire(ctx context.Context) error {
	s.retired.Store(true)
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, b := range s.buckets {
			pipe.HDel(ctx, b.fixed[keyClock], "watch")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("give up watches: %w", unavailable(err))
	}
	return nil
}

// Open records the layout at the first use of a store and checks it later. Another one is ErrLayout.
func (s *Store) Open(ctx context.Context) error {
	fresh, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("make store id: %w", err)
	}
	c := &call{script: openScript, keys: []string{s.space.meta()}, args: []any{layoutVersion, len(s.buckets), fresh.String()}}
	if err := s.send(ctx, c); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	found, _ := c.reply.([]any)
	if len(found) != 3 {
		return fmt.Errorf("open store: unexpected reply %v", c.reply)
	}
	layout, buckets := text(found[0]), text(found[1])
	if layout != layoutVersion {
		return fmt.Errorf("%w: redis holds layout %q under prefix %q, this version knows %s", ErrLayout, layout, s.space.prefix, layoutVersion)
	}
	if buckets != strconv.Itoa(len(s.buckets)) {
		return fmt.Errorf("%w: redis holds %s buckets under prefix %q, configured are %d", ErrLayout, buckets, s.space.prefix, len(s.buckets))
	}
	s.id = text(found[2])
	return nil
}

// ID is the random id of the store; it is known once Open returned.
func (s *Store) ID() string { return s.id }

// oneNode reports whether all buckets are on one node.
func (s *Store) oneNode() bool {
	_, alone := s.client.(*redis.Client)
	return alone
}

// Buckets is the number of buckets.
func (s *Store) Buckets() int { return len(s.buckets) }

// BucketOf gives the bucket of a job.
func (s *Store) BucketOf(id string) int { return bucketOf(id, len(s.buckets)) }

// Ping asks Redis for a sign of life.
func (s *Store) Ping(ctx context.Context) error { return unavailable(s.client.Ping(ctx).Err()) }

// Close ends the connections to Redis.
func (s *Store) Close() error { return errors.Join(s.client.Close(), s.cluster.close()) }

// spread groups the positions 0…n-1 by bucket, in parts that one script may handle.
func (s *Store) spread(n int, id func(i int) string, size func(i int) int) [][]int {
	open := make([]int, len(s.buckets)) // part of each bucket that takes more, +1
	weight := make([]int, len(s.buckets))
	var parts [][]int
	for i := range n {
		b := s.BucketOf(id(i))
		bytes := size(i)
		if open[b] == 0 || len(parts[open[b]-1]) == maxBatch || weight[b]+bytes > maxBatchBytes {
			parts = append(parts, nil)
			open[b], weight[b] = len(parts), 0
		}
		weight[b] += bytes
		parts[open[b]-1] = append(parts[open[b]-1], i)
	}
	return parts
}

func weightless(int) int { return 0 }

// The readers of replies: a reply that is not of the expected shape reads as zero, since scripts and readers are
// of one build.

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func texts(v any) []string {
	l := list(v)
	out := make([]string, len(l))
	for i := range l {
		out[i] = text(l[i])
	}
	return out
}
