package delay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// snapshot is all that a store holds, read key by key.
type snapshot struct {
	records map[string]string // id → record
	states  map[string][]State
	scores  map[string]float64
	listed  map[string]int // "topic id" → times in the topic's list
	tries   map[string]string
	counts  map[string]int64 // field → sum over buckets
	active  map[string]bool
	faults  []string
}

// audit reads a store and notes in faults whatever breaks an invariant of design section 3.
func audit(ctx context.Context, client redis.UniversalClient, s *Store) (*snapshot, error) {
	snap := &snapshot{
		records: map[string]string{}, states: map[string][]State{}, scores: map[string]float64{}, listed: map[string]int{},
		tries: map[string]string{}, counts: map[string]int64{}, active: map[string]bool{},
	}
	for b := range s.buckets {
		if err := snap.readBucket(ctx, client, s.buckets[b]); err != nil {
			return nil, err
		}
	}
	snap.check()
	return snap, nil
}

func (snap *snapshot) readBucket(ctx context.Context, client redis.UniversalClient, k bucketKeys) error {
	records, err := client.HGetAll(ctx, k.fixed[keyPool]).Result()
	if err != nil {
		return err
	}
	for id, record := range records {
		snap.records[id] = record
	}
	outside, err := client.HKeys(ctx, k.fixed[keyBodies]).Result()
	if err != nil {
		return err
	}
	for _, id := range outside {
		if version, _ := nextField(records[id]); !strings.Contains(version, flagOutside) {
			snap.faultf("body of %q is kept beside a record that does not say so: %q", id, records[id])
		}
	}
	for key, state := range map[int]State{keyBucket: Delayed, keyRunning: InFlight, keyDead: Dead} {
		entries, err := client.ZRangeWithScores(ctx, k.fixed[key], 0, -1).Result()
		if err != nil {
			return err
		}
		for _, z := range entries {
			id := z.Member.(string)
			snap.states[id] = append(snap.states[id], state)
			snap.scores[id] = z.Score
		}
	}
	for key, into := range map[int]map[string]string{keyTries: snap.tries} {
		values, err := client.HGetAll(ctx, k.fixed[key]).Result()
		if err != nil {
			return err
		}
		for id, value := range values {
			into[id] = value
		}
	}
	return snap.readTopics(ctx, client, k)
}

func (snap *snapshot) readTopics(ctx context.Context, client redis.UniversalClient, k bucketKeys) error {
	counts, err := client.HGetAll(ctx, k.fixed[keyTopics]).Result()
	if err != nil {
		return err
	}
	for field, value := range counts {
		if strings.HasPrefix(field, "p:") {
			continue // positions of lists
		}
		n, wrong := strconv.ParseInt(value, 10, 64)
		if wrong != nil {
			return wrong
		}
		snap.counts[field] += n
	}
	active, err := client.ZRange(ctx, k.fixed[keyActive], 0, -1).Result()
	if err != nil {
		return err
	}
	lists, err := keysOf(ctx, client, k.lists+"*")
	if err != nil {
		return err
	}
	for _, key := range lists {
		topic := strings.TrimPrefix(key, k.lists)
		if !slices.Contains(active, topic) {
			snap.faultf("list of topic %q is not active", topic)
		}
		ids, err := client.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			return err
		}
		for _, id := range ids {
			snap.listed[topic+" "+id]++
		}
	}
	for _, topic := range active {
		if !slices.Contains(lists, k.lists+topic) {
			snap.faultf("topic %q is active without a list", topic)
		}
	}
	return nil
}

func (snap *snapshot) faultf(format string, args ...any) {
	snap.faults = append(snap.faults, fmt.Sprintf(format, args...))
}

// check compares what was read with itself: each record in one state, nothing without a record, counters exact.
func (snap *snapshot) check() {
	want := map[string]int64{}
	letters := map[State]string{Delayed: "d", Ready: "r", InFlight: "i", Dead: "x"}
	for id, record := range snap.records {
		var d Delivery
		d.ID = unpackID(id)
		if err := decodeRecord(&d, record, ""); err != nil {
			snap.faultf("record of %q: %v", id, err)
			continue
		}
		switch len(snap.states[id]) {
		case 0:
			snap.states[id] = []State{Ready}
			if snap.listed[d.Topic+" "+id] == 0 {
				snap.faultf("job %q is in no state", id)
			}
		case 1:
		default:
			snap.faultf("job %q is in the states %v", id, snap.states[id])
		}
		letter := letters[snap.states[id][0]]
		want[letter+":"+d.Topic]++
	}
	for id := range snap.states {
		if _, found := snap.records[id]; !found {
			snap.faultf("id %q is %v without a record", id, snap.states[id])
		}
	}
	for id := range snap.tries {
		if _, found := snap.records[id]; !found {
			snap.faultf("id %q has tries without a record", id)
		}
	}
	for field := range want {
		if snap.counts[field] != want[field] {
			snap.faultf("counter %q is %d, there are %d", field, snap.counts[field], want[field])
		}
	}
	for field, n := range snap.counts {
		if n != want[field] {
			snap.faultf("counter %q is %d, there are %d", field, n, want[field])
		}
	}
}
