package delay

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Each kind of damage, made by hand, is found and mended; the job is delivered, and a second check is clean.
func TestCheckFindsAndMends(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		damage func(ctx context.Context, client *redis.Client, k bucketKeys)
		kind   string
		// jobs is how many of the three jobs are still delivered.
		jobs int
	}{
		"delayed entry lost": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.ZRem(ctx, k.fixed[keyBucket], "late")
		}, FoundLost, 3},
		"list entry lost": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.LRem(ctx, k.lists+"t", 0, "now")
		}, FoundLost, 3},
		"record lost": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.HDel(ctx, k.fixed[keyPool], "late")
		}, FoundOrphan, 2},
		"unknown id in a list": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.RPush(ctx, k.lists+"t", "nobody")
		}, FoundStale, 3},
		"list that nothing tells of": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.RPush(ctx, k.lists+"zz", "nobody")
		}, FoundStale, 3},
		"unknown id in flight": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.ZAdd(ctx, k.fixed[keyRunning], redis.Z{Score: 1, Member: "nobody"})
		}, FoundOrphan, 3},
		"two states": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.ZAdd(ctx, k.fixed[keyDead], redis.Z{Score: 1, Member: "late"})
		}, FoundDouble, 3},
		"counter of a topic off": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.HIncrBy(ctx, k.fixed[keyTopics], "r:t", 7)
		}, FoundCounter, 3},
		"list without its mark": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.ZRem(ctx, k.fixed[keyActive], "t")
		}, FoundInactive, 3},
		"mark without a list": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.ZAdd(ctx, k.fixed[keyActive], redis.Z{Score: 1, Member: "empty"})
		}, FoundInactive, 3},
		"left over tries": {func(ctx context.Context, client *redis.Client, k bucketKeys) {
			client.HSet(ctx, k.fixed[keyTries], "nobody", "1 1 1 0 - b t")
		}, FoundOrphan, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := testenv.SharedRedis(t).Client()
			ctx := t.Context()
			shift := time.Duration(0)
			store := NewStore(client, StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
			store.shift = func() time.Duration { return shift }
			store.Push(ctx, []Job{
				{ID: "now", Topic: "t", TTR: time.Minute},
				{ID: "late", Topic: "t", Delay: time.Minute, TTR: time.Minute},
				{ID: "dead", Topic: "t", TTR: time.Minute},
			})
			store.Bury(ctx, []Ack{{ID: "dead", Reason: "buried"}})
			if found := findings(t, store, false); len(found) > 0 && (len(found) > 1 || found[0].Kind != FoundStale) {
				t.Fatalf("before any damage: %+v", found)
			}
			findings(t, store, true) // the id of the buried job goes from its list
			row.damage(ctx, client, store.buckets[0])
			if found := findings(t, store, false); len(found) == 0 || !hasKind(found, row.kind) {
				t.Fatalf("found %+v, want %s", found, row.kind)
			}
			for _, f := range findings(t, store, true) {
				if !f.Mended {
					t.Fatalf("not mended: %+v", f)
				}
			}
			if found := findings(t, store, false); len(found) > 0 {
				t.Fatalf("after the repair: %+v", found)
			}
			if early, err := store.Reserve(ctx, "0.test", [][]Want{{{Topic: "t", N: 10}}}); err != nil || hasID(early, "late") {
				t.Fatalf("the repair made a job ready before it is due: %+v (%v)", early, err)
			}
			store.Release(ctx, []Ack{{ID: "now", HasDelay: true, Delay: time.Second}})
			snap, err := audit(ctx, client, store)
			if err != nil || len(snap.faults) > 0 {
				t.Fatalf("after the repair: %v %q", err, snap.faults)
			}
			shift = 2 * time.Minute
			store.Kick(ctx, []string{"dead"})
			if _, err = store.Promote(ctx, 0, Offer{}, nil); err != nil {
				t.Fatal(err)
			}
			reserved, err := store.Reserve(ctx, "0.test", [][]Want{{{Topic: "t", N: 10}}})
			if err != nil || len(reserved[0].Topics[0].Deliveries) != row.jobs {
				t.Fatalf("reserved %+v (%v), want %d jobs", reserved, err, row.jobs)
			}
		})
	}
}

func TestCheckLeavesUnknownFormatsAlone(t *testing.T) {
	t.Parallel()
	client := testenv.SharedRedis(t).Client()
	store := NewStore(client, StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
	pool := store.buckets[0].fixed[keyPool]
	const record = "2 t and something new\nbody"
	client.HSet(t.Context(), pool, "new", record)
	found := findings(t, store, true)
	if !hasKind(found, FoundUnknown) {
		t.Fatalf("found %+v", found)
	}
	if kept := client.HGet(t.Context(), pool, "new").Val(); kept != record {
		t.Fatalf("record is %q now", kept)
	}
}

func findings(t *testing.T, store *Store, repair bool) []Finding {
	t.Helper()
	var found []Finding
	if _, err := NewChecker(store, repair, func(f Finding) { found = append(found, f) }).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return found
}

func hasKind(found []Finding, kind string) bool {
	for _, f := range found {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

func hasID(reserved []Reserved, id string) bool {
	for _, d := range reserved[0].Topics[0].Deliveries {
		if d.ID == id {
			return true
		}
	}
	return false
}
