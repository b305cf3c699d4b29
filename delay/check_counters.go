package delay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counters holds the counters against a full count. Those that changed meanwhile are counted again, a few times.
func (c *Checker) counters(ctx context.Context, b int) error {
	const tries = 3
	k := c.store.buckets[b].fixed[keyTopics]
	for try := 1; ; try++ {
		before, err := c.store.client.HGetAll(ctx, k).Result()
		if err != nil {
			return unavailable(err)
		}
		// States were looked at and reported before; here only their number counts.
		quiet := &Checker{store: c.store, report: func(Finding) {}}
		found, err := quiet.records(ctx, b)
		if err != nil {
			return err
		}
		after, err := c.store.client.HGetAll(ctx, k).Result()
		if err != nil {
			return unavailable(err)
		}
		differences, busy := compare(before, after, found.counts)
		if busy && try < tries {
			continue
		}
		if busy {
			c.report(Finding{Kind: FoundBusy, Bucket: b, Detail: "counters change while they are counted"})
		}
		return c.difference(ctx, b, differences)
	}
}

// compare gives by how much counters are off, and whether some changed between two readings.
func compare(before, after map[string]string, counts map[string]int64) (map[string]int64, bool) {
	differences, busy := make(map[string]int64), false
	fields := maps.Clone(counts)
	for field := range before {
		fields[field] = counts[field]
	}
	for field := range after {
		fields[field] = counts[field]
	}
	for field, n := range fields {
		switch {
		case strings.HasPrefix(field, "p:"):
		case before[field] != after[field]:
			busy = true
		case number(after[field]) != n:
			differences[field] = n - number(after[field])
		}
	}
	return differences, busy
}

func (c *Checker) difference(ctx context.Context, b int, differences map[string]int64) error {
	if len(differences) == 0 {
		return nil
	}
	if c.repair {
		if err := c.store.adjust(ctx, b, "", differences); err != nil {
			return err
		}
	}
	for _, field := range slices.Sorted(maps.Keys(differences)) {
		_, topic, _ := strings.Cut(field, ":")
		c.report(Finding{
			Kind: FoundCounter, Bucket: b, Topic: topic, Mended: c.repair,
			Detail: fmt.Sprintf("%s is off by %d", field, -differences[field]),
		})
	}
	return nil
}

// adjust changes counters and the mark of an active topic, see adjust.lua.
func (s *Store) adjust(ctx context.Context, bucket int, topic string, differences map[string]int64) error {
	call := s.bucketCall(adjustScript, bucket, 1+2*len(differences))
	call.args = append(call.args, topic)
	for field, n := range differences {
		call.args = append(call.args, field, n)
	}
	if err := s.send(ctx, call); err != nil {
		return fmt.Errorf("adjust: %w", err)
	}
	return nil
}
