package delay

import (
	"context"
	"maps"
	"slices"
)

// sweep looks through the records of a bucket, a page at a time, for what a script that was stopped in its middle may
// have left: a job that is in no state, or in two. It goes round for ever.
type sweep struct {
	bucket  int
	checker *Checker
	cursor  uint64
	mended  int
}

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

// step looks at one page. Where something had to be mended, the counters of the bucket are counted anew.
func (s *sweep) step(ctx context.Context) error {
	pool := s.checker.store.buckets[s.bucket].fixed[keyPool]
	entries, next, err := s.checker.store.client.HScan(ctx, pool, s.cursor, "", checkPage).Result()
	if err != nil {
		return unavailable(err)
	}
	s.cursor = next
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
