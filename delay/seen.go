package delay

import (
	"context"
	"fmt"
)

// The messages of a stream that pushes came in are remembered with their jobs, in one script: the stream may send a
// message again whose job was delivered and finished meanwhile. What it has the acks of it sends no more.

// forgetBatch is how many marks one script drops.
const forgetBatch = 512

// Forget drops the marks of all messages up to a place in the stream, in every bucket.
func (s *Store) Forget(ctx context.Context, last uint64) error {
	for b := range s.buckets {
		for {
			c := &call{script: forgetScript, keys: []string{s.buckets[b].seen}, args: []any{last, forgetBatch}}
			if err := s.send(ctx, c); err != nil {
				return fmt.Errorf("forget stream messages of bucket %d: %w", b, err)
			}
			if number(c.reply) < forgetBatch {
				break
			}
		}
	}
	return nil
}
