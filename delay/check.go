package delay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Finding is something in a store that should not be.
type Finding struct {
	// Kind is one of the Found constants.
	Kind   string `json:"kind"`
	Bucket int    `json:"bucket"`
	// ID or Topic say what it is about.
	ID    string `json:"id,omitempty"`
	Topic string `json:"topic,omitempty"`
	// Detail is for people.
	Detail string `json:"detail,omitempty"`
	// Mended says that a repair has put it right.
	Mended bool `json:"mended"`
}

// Kinds of findings.
const (
	// FoundOrphan: traces of an id that has no record.
	FoundOrphan = "orphan"
	// FoundDouble: an id in two states.
	FoundDouble = "double"
	// FoundLost: a job in no state, so that nobody would deliver it.
	FoundLost = "lost"
	// FoundUnknown: a record of a format that this version does not know. It is left alone.
	FoundUnknown = "unknown"
	// FoundStale: entries of a list that stand for no ready job. They are harmless; reserve passes over them.
	FoundStale = "stale"
	// FoundInactive: a topic's list that no replica would look at, or the mark of one that is empty.
	FoundInactive = "inactive"
	// FoundCounter: a counter that differs from a full count.
	FoundCounter = "counter"
	// FoundBusy: counters that changed while they were counted, so that nothing can be said of them.
	FoundBusy = "busy"
)

const (
	checkPage = 200
	// checkSearch is the longest list that a script searches for one id.
	checkSearch = 2000
)

// Checker reads a store in bounded steps while everything runs, and mends it where it is told to. It never drops a job.
type Checker struct {
	store  *Store
	repair bool
	report func(Finding)
}

// NewChecker makes a checker of an open store. report hears of each finding.
func NewChecker(store *Store, repair bool, report func(Finding)) *Checker {
	return &Checker{store: store, repair: repair, report: report}
}

// Run checks all buckets and gives how many jobs it saw.
func (c *Checker) Run(ctx context.Context) (jobs int, err error) {
	for b := range c.store.buckets {
		n, err := c.bucket(ctx, b)
		jobs += n
		if err != nil {
			return jobs, fmt.Errorf("check bucket %d: %w", b, err)
		}
	}
	return jobs, nil
}

func (c *Checker) bucket(ctx context.Context, b int) (int, error) {
	if err := c.traces(ctx, b); err != nil {
		return 0, err
	}
	scan, err := c.records(ctx, b)
	if err != nil {
		return 0, err
	}
	if err := c.lists(ctx, b, scan); err != nil {
		return scan.jobs, err
	}
	return scan.jobs, c.counters(ctx, b)
}

// traces looks for ids without a record.
func (c *Checker) traces(ctx context.Context, b int) error {
	k := c.store.buckets[b].fixed
	client := c.store.client
	for _, scan := range []*redis.ScanIterator{
		client.ZScan(ctx, k[keyBucket], 0, "", checkPage).Iterator(), client.ZScan(ctx, k[keyRunning], 0, "", checkPage).Iterator(),
		client.ZScan(ctx, k[keyDead], 0, "", checkPage).Iterator(), client.HScan(ctx, k[keyTries], 0, "", checkPage).Iterator(),
		client.HScan(ctx, k[keyBodies], 0, "", checkPage).Iterator(),
	} {
		var ids []string
		for name := true; scan.Next(ctx); name = !name {
			if !name {
				continue
			}
			if ids = append(ids, scan.Val()); len(ids) == checkPage {
				if err := c.orphans(ctx, b, ids); err != nil {
					return err
				}
				ids = ids[:0]
			}
		}
		if err := scan.Err(); err != nil {
			return unavailable(err)
		}
		if err := c.orphans(ctx, b, ids); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checker) orphans(ctx context.Context, b int, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	records, err := c.store.client.HMGet(ctx, c.store.buckets[b].fixed[keyPool], ids...).Result()
	if err != nil {
		return unavailable(err)
	}
	var suspects []string
	for i, record := range records {
		if record == nil {
			suspects = append(suspects, ids[i])
		}
	}
	return c.mend(ctx, b, suspects)
}

// mend has a script look at suspects, at one instant, and put them right where it is told to.
func (c *Checker) mend(ctx context.Context, b int, suspects []string) error {
	for part := range slices.Chunk(suspects, checkPage/4) {
		verdicts, err := c.store.mend(ctx, b, part, c.repair)
		if err != nil {
			return err
		}
		for i, verdict := range verdicts {
			if verdict != "fine" && verdict != "long" {
				c.report(Finding{
					Kind: verdict, Bucket: b, ID: unpackID(part[i]), Mended: c.repair && verdict != FoundUnknown,
				})
			}
		}
	}
	return nil
}

// mend looks at stored ids and gives a verdict for each, see mend.lua.
func (s *Store) mend(ctx context.Context, bucket int, stored []string, repair bool) ([]string, error) {
	call := s.bucketCall(mendScript, bucket, 2+len(stored))
	call.args = append(call.args, flag(repair), checkSearch)
	for _, id := range stored {
		call.args = append(call.args, id)
	}
	if err := s.send(ctx, call); err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	verdicts := texts(call.reply)
	if len(verdicts) != len(stored) {
		return nil, fmt.Errorf("mend: reply of %d entries", len(verdicts))
	}
	return verdicts, nil
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// scanned is what a pass over the records of a bucket found.
type scanned struct {
	jobs int
	// ready are the topics of jobs that are in no set, by id.
	ready map[string]string
	// counts are the jobs by counter.
	counts map[string]int64
}

// records goes through all records of a bucket.
func (c *Checker) records(ctx context.Context, b int) (*scanned, error) {
	found := &scanned{ready: make(map[string]string), counts: make(map[string]int64)}
	k := c.store.buckets[b].fixed
	for cursor := uint64(0); ; {
		entries, next, err := c.store.client.HScan(ctx, k[keyPool], cursor, "", checkPage).Result()
		if err != nil {
			return nil, unavailable(err)
		}
		if err := c.page(ctx, b, entries, found); err != nil {
			return nil, err
		}
		if cursor = next; cursor == 0 {
			return found, nil
		}
	}
}

// page takes in one page of ids and records.
func (c *Checker) page(ctx context.Context, b int, entries []string, found *scanned) error {
	if len(entries) == 0 {
		return nil
	}
	k := c.store.buckets[b].fixed
	ids := make([]string, 0, len(entries)/2)
	for i := 0; i+1 < len(entries); i += 2 {
		ids = append(ids, entries[i])
	}
	sets := []int{keyRunning, keyBucket, keyDead}
	letters := []string{"i", "d", "x"}
	present := make([]*redis.Cmd, len(sets))
	_, err := c.store.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, set := range sets {
			command := []any{"zmscore", k[set]}
			for _, id := range ids {
				command = append(command, id)
			}
			present[i] = pipe.Do(ctx, command...)
		}
		return nil
	})
	if err != nil {
		return unavailable(err)
	}
	var suspects []string
	for i, id := range ids {
		found.jobs++
		var d Delivery
		if decodeRecord(&d, entries[2*i+1], "") != nil {
			suspects = append(suspects, id)
			continue
		}
		letter, states := "r", 0
		for j := range sets {
			if scores := list(present[j].Val()); scores[i] != nil {
				letter = letters[j]
				states++
			}
		}
		switch {
		case states > 1:
			suspects = append(suspects, id)
		case states == 0:
			found.ready[id] = d.Topic
		}
		found.counts[letter]++
		found.counts[letter+":"+d.Topic]++
	}
	return c.mend(ctx, b, suspects)
}

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
		if _, err := c.store.adjust(ctx, b, topic, nil); err != nil {
			return err
		}
	}
	c.report(Finding{Kind: FoundInactive, Bucket: b, Topic: topic, Mended: c.repair})
	return nil
}

// adjust changes counters and the mark of an active topic, see adjust.lua.
func (s *Store) adjust(ctx context.Context, bucket int, topic string, differences map[string]int64) (bool, error) {
	call := s.bucketCall(adjustScript, bucket, 1+2*len(differences))
	call.args = append(call.args, topic)
	for field, n := range differences {
		call.args = append(call.args, field, n)
	}
	if err := s.send(ctx, call); err != nil {
		return false, fmt.Errorf("adjust: %w", err)
	}
	return number(call.reply) == 1, nil
}

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
func compare(before, after map[string]string, counts map[string]int64) (differences map[string]int64, busy bool) {
	differences = make(map[string]int64)
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
		if _, err := c.store.adjust(ctx, b, "", differences); err != nil {
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
