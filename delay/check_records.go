package delay

import (
	"context"

	"github.com/redis/go-redis/v9"
)

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
	ids := make([]string, 0, len(entries)/2)
	for i := 0; i+1 < len(entries); i += 2 {
		ids = append(ids, entries[i])
	}
	letters, err := c.states(ctx, b, ids)
	if err != nil {
		return err
	}
	var suspects []string
	for i, id := range ids {
		if !found.add(id, entries[2*i+1], letters[i]) {
			suspects = append(suspects, id)
		}
	}
	return c.mend(ctx, b, suspects)
}

// add counts a job in, by the letters of the states whose sets hold its id, and reports whether it is as it should be as
// far as that says. One whose record cannot be read counts too: a replica of another version may know it.
func (s *scanned) add(id, record, letters string) bool {
	s.jobs++
	var d Delivery
	err := decodeRecord(&d, record, "")
	if err != nil && d.Topic == "" {
		return false
	}
	letter := "r"
	if letters == "" {
		s.ready[id] = d.Topic
	} else {
		letter = letters[len(letters)-1:]
	}
	s.counts[letter+":"+d.Topic]++
	return err == nil && len(letters) <= 1
}

// states gives for each id the letters of the states whose sets hold it: none for a ready job, one for any other.
func (c *Checker) states(ctx context.Context, b int, ids []string) ([]string, error) {
	sets := []int{keyRunning, keyBucket, keyDead}
	present := make([]*redis.Cmd, len(sets))
	_, err := c.store.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, set := range sets {
			command := []any{"zmscore", c.store.buckets[b].fixed[set]}
			for _, id := range ids {
				command = append(command, id)
			}
			present[i] = pipe.Do(ctx, command...)
		}
		return nil
	})
	if err != nil {
		return nil, unavailable(err)
	}
	letters := make([]string, len(ids))
	for i, letter := range []string{"i", "d", "x"} {
		for at, score := range list(present[i].Val()) {
			if score != nil {
				letters[at] += letter
			}
		}
	}
	return letters, nil
}
