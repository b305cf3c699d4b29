package delay

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
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
func (c *Checker) Run(ctx context.Context) (int, error) {
	jobs := 0
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
		if err := c.trace(ctx, b, scan); err != nil {
			return err
		}
	}
	return nil
}

// trace looks, a page at a time, for ids without a record among what a scan gives: an id and its score or value in turn.
func (c *Checker) trace(ctx context.Context, b int, scan *redis.ScanIterator) error {
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
	return c.orphans(ctx, b, ids)
}

// orphans looks for ids without a record among some.
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
				f := Finding{Kind: verdict, Bucket: b, ID: unpackID(part[i]), Mended: c.repair && verdict != FoundUnknown}
				if verdict == FoundUnknown {
					f.Detail = "the format of its record is not known to this version, it is left alone"
				}
				c.report(f)
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
