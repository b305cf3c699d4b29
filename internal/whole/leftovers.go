package whole

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Leftovers looks through all keys of a store for what is there although no job is: records, ids in a list or set,
// counters that are not zero. It gives a line for each, and none for what stays for good: the layout, the slots of
// replicas and the clocks of buckets (delay/keys.go).
func Leftovers(ctx context.Context, client *redis.Client, prefix string) ([]string, error) {
	var left []string
	// A prefix has no characters that mean something in a pattern but the dot, which stands for itself.
	found := client.Scan(ctx, 0, prefix+":*", 1000).Iterator()
	for found.Next(ctx) {
		lines, err := leftIn(ctx, client, found.Val(), strings.TrimPrefix(found.Val(), prefix+":"))
		if err != nil {
			return nil, fmt.Errorf("look into %s: %w", found.Val(), err)
		}
		left = append(left, lines...)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	slices.Sort(left)
	return slices.Compact(left), nil // SCAN may tell a key twice
}

// leftIn looks into one key; name is without the prefix.
func leftIn(ctx context.Context, client *redis.Client, key, name string) ([]string, error) {
	if name == "meta" || strings.HasPrefix(name, "meta:") {
		return nil, nil
	}
	if _, of, _ := strings.Cut(name, "}:"); of == "clock" {
		return nil, nil
	}
	return leftEntries(ctx, client, key)
}

// leftEntries describes a key that should not be there by its size and its first entries.
func leftEntries(ctx context.Context, client *redis.Client, key string) ([]string, error) {
	const shown = 3
	kind, err := client.Type(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	var size int64
	var sample any
	var errs [2]error
	switch kind {
	case "none": // it has gone since it was listed
		return nil, nil
	case "hash":
		size, errs[0] = client.HLen(ctx, key).Result()
		sample, errs[1] = client.HRandFieldWithValues(ctx, key, shown).Result()
	case "zset":
		size, errs[0] = client.ZCard(ctx, key).Result()
		sample, errs[1] = client.ZRangeWithScores(ctx, key, 0, shown-1).Result()
	case "list":
		size, errs[0] = client.LLen(ctx, key).Result()
		sample, errs[1] = client.LRange(ctx, key, 0, shown-1).Result()
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%s: %s of %d entries: %.300s", key, kind, size, fmt.Sprint(sample))}, nil
}
