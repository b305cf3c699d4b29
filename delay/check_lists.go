package delay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// lists holds the ready jobs against their topics' lists, and the lists against the set of active topics.
func (c *Checker) lists(ctx context.Context, b int, found *scanned) error {
	k := c.store.buckets[b]
	active, err := c.store.client.ZRange(ctx, k.fixed[keyActive], 0, -1).Result()
	if err != nil {
		return unavailable(err)
	}
	topics := make(map[string]bool)
	for _, topic := range active {
		topics[topic] = true
	}
	for _, topic := range found.ready {
		topics[topic] = true
	}
	fields, err := c.store.client.HKeys(ctx, k.fixed[keyTopics]).Result()
	if err != nil {
		return unavailable(err)
	}
	for _, field := range fields {
		if _, topic, named := strings.Cut(field, ":"); named {
			topics[topic] = true
		}
	}
	if err := c.keys(ctx, b, topics); err != nil {
		return err
	}
	listed := make(map[string]bool)
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		if err := c.list(ctx, b, topic, found, listed); err != nil {
			return err
		}
	}
	var unlisted []string
	for id := range found.ready {
		if !listed[id] {
			unlisted = append(unlisted, id)
		}
	}
	slices.Sort(unlisted)
	return c.mend(ctx, b, unlisted)
}

// keys adds the topics of all lists that there are, also of those that nothing else tells of.
func (c *Checker) keys(ctx context.Context, b int, topics map[string]bool) error {
	k := c.store.buckets[b]
	node, err := c.store.node(ctx, k.fixed[keyPool])
	if err != nil {
		return err
	}
	scan := node.Scan(ctx, 0, k.lists+"*", checkPage).Iterator()
	for scan.Next(ctx) {
		topics[strings.TrimPrefix(scan.Val(), k.lists)] = true
	}
	return unavailable(scan.Err())
}

// list goes through one list.
func (c *Checker) list(ctx context.Context, b int, topic string, found *scanned, listed map[string]bool) error {
	stale := 0
	for at := int64(0); ; at += checkPage {
		ids, err := c.store.client.LRange(ctx, c.store.buckets[b].lists+topic, at, at+checkPage-1).Result()
		if err != nil {
			return unavailable(err)
		}
		for _, id := range ids {
			if found.ready[id] != topic || listed[id] {
				stale++
			}
			listed[id] = listed[id] || found.ready[id] == topic
		}
		if len(ids) < checkPage {
			break
		}
	}
	if err := c.stale(ctx, b, topic, stale); err != nil {
		return err
	}
	return c.active(ctx, b, topic)
}

// stale reports entries of a list that stand for no ready job, and turns the list once to take them out. While jobs
// come and go some entries only seem so.
func (c *Checker) stale(ctx context.Context, b int, topic string, n int) error {
	if n == 0 {
		return nil
	}
	entries, err := c.store.client.LLen(ctx, c.store.buckets[b].lists+topic).Result()
	if err != nil {
		return unavailable(err)
	}
	if c.repair {
		for range entries/maxBatch + 1 {
			if _, err := c.store.Compact(ctx, b, topic, -1); err != nil {
				return err
			}
		}
	}
	c.report(Finding{Kind: FoundStale, Bucket: b, Topic: topic, Detail: fmt.Sprintf("%d of %d entries", n, entries), Mended: c.repair})
	return nil
}

func (c *Checker) active(ctx context.Context, b int, topic string) error {
	client, k := c.store.client, c.store.buckets[b]
	var listed *redis.IntCmd
	var known *redis.FloatCmd
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		listed = pipe.Exists(ctx, k.lists+topic)
		known = pipe.ZScore(ctx, k.fixed[keyActive], topic)
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis gives Nil itself
		return unavailable(err)
	}
	if (listed.Val() == 1) == (known.Err() == nil) {
		return nil
	}
	if c.repair {
		if err := c.store.adjust(ctx, b, topic, nil); err != nil {
			return err
		}
	}
	c.report(Finding{Kind: FoundInactive, Bucket: b, Topic: topic, Mended: c.repair})
	return nil
}
