package delay

import (
	"context"
	"fmt"
	"time"
)

// oldestTopics is how many topics of a bucket are looked at for the oldest ready job.
const oldestTopics = 16

// Ages are how long the jobs wait that wait longest, by Redis's clock. Zero: none does.
type Ages struct {
	// Overdue is of the delayed jobs, since they were due.
	Overdue time.Duration
	// Ready is of the jobs at the head of the lists that were not delivered yet, since they were due.
	Ready time.Duration
}

// Ages asks each bucket.
func (s *Store) Ages(ctx context.Context) (Ages, error) {
	calls := make([]*call, len(s.buckets))
	for b := range s.buckets {
		calls[b] = s.bucketCall(oldestScript, b, 1)
		calls[b].args = append(calls[b].args, oldestTopics)
	}
	if err := s.send(ctx, calls...); err != nil {
		return Ages{}, fmt.Errorf("read the oldest jobs: %w", err)
	}
	var a Ages
	for _, c := range calls {
		reply := list(c.reply)
		if len(reply) != 2 {
			return Ages{}, fmt.Errorf("read the oldest jobs: reply of %d entries", len(reply))
		}
		a.Overdue = max(a.Overdue, time.Duration(number(reply[0]))*time.Microsecond)
		a.Ready = max(a.Ready, time.Duration(number(reply[1]))*time.Microsecond)
	}
	return a, nil
}
