package delay

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// sweep looks through the records of a bucket, a page at a time, for what a script that was stopped in its middle may
// have left: a job that is in no state, or in two. It goes round for ever.
type sweep struct {
	bucket  int
	checker *Checker
	cursor  uint64
	mended  int
	next    time.Time
}

// sweepEvery is the time between two pages of one bucket: 40 jobs a second, so that a million idle jobs cost next to
// nothing. A round over them takes an hour with 8 buckets; dqbridge check does it at once.
const sweepEvery = 5 * time.Second

func newSweep(store *Store, bucket int, sink Sink) *sweep {
	s := &sweep{bucket: bucket}
	s.checker = NewChecker(store, true, func(f Finding) {
		if f.Mended {
			s.mended++
		}
		sink.Found(f)
	})
	return s
}

// step looks at one page, where it is time for it. Where something had to be mended, the counters of the bucket are counted anew.
func (s *sweep) step(ctx context.Context, now time.Time) error {
	if now.Before(s.next) {
		return nil
	}
	s.next = now.Add(sweepEvery/2 + rand.N(sweepEvery))
	pool := s.checker.store.buckets[s.bucket].fixed[keyPool]
	entries, position, err := s.checker.store.client.HScan(ctx, pool, s.cursor, "", checkPage).Result()
	if err != nil {
		return unavailable(err)
	}
	s.cursor = position
	found := &scanned{ready: make(map[string]string), counts: make(map[string]int64)}
	if err := s.checker.page(ctx, s.bucket, entries, found); err != nil {
		return err
	}
	if err := s.checker.mend(ctx, s.bucket, slices.Collect(maps.Keys(found.ready))); err != nil {
		return err
	}
	if s.mended == 0 {
		return nil
	}
	s.mended = 0
	return s.checker.counters(ctx, s.bucket)
}
