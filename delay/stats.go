package delay

import (
	"context"
	"fmt"
	"time"
)

// Counts is the number of jobs in each state.
type Counts struct {
	Delayed, Ready, InFlight, Dead int64
	// Oldest is when the first delayed job is due by Redis's clock; zero: there is none.
	Oldest time.Time
}

// Counts counts the jobs of all buckets, each at its own instant.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	calls := make([]*call, len(s.buckets))
	for b := range s.buckets {
		calls[b] = s.bucketCall(countsScript, b, 0)
	}
	if err := s.send(ctx, calls...); err != nil {
		return Counts{}, fmt.Errorf("read counts: %w", err)
	}
	var c Counts
	earliest := int64(-1)
	for _, call := range calls {
		reply := list(call.reply)
		if len(reply) != 5 {
			return Counts{}, fmt.Errorf("read counts: reply of %d entries", len(reply))
		}
		for i, sum := range []*int64{&c.Delayed, &c.Ready, &c.InFlight, &c.Dead} {
			*sum += number(reply[i])
		}
		if first := number(reply[4]); first >= 0 && (earliest < 0 || first < earliest) {
			earliest = first
		}
	}
	if earliest >= 0 {
		c.Oldest = time.UnixMilli(earliest)
	}
	return c, nil
}
