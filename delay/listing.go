package delay

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strconv"
)

// Place is where a listing goes on in one bucket: behind an entry of a set by score, or at a position of a list.
type Place struct {
	// Score and Member are of the last entry that was read; Score is empty at the beginning.
	Score, Member string
	// At is the position in a list, empty at its beginning.
	At string
	// End says that the bucket has no more.
	End bool
}

// Listing is a page of jobs.
type Listing struct {
	Jobs []Stored
	// Next are the places to go on from, by bucket; nil at the end.
	Next []Place
}

// pageScan is how many entries one bucket looks at for one page: so many that a page is full where the topic has most
// of the jobs, so few that the script is short.
const pageScan = 200

// List reads a page of jobs in a state, of a topic or of all: delayed by due time, in flight by deadline, dead by time of
// death, and of one topic ready in the order of its lists. A page may have fewer jobs than limit, even none, and go on.
func (s *Store) List(ctx context.Context, state State, topic string, from []Place, limit int) (Listing, error) {
	places := make([]Place, len(s.buckets))
	if from != nil && len(from) != len(places) {
		return Listing{}, ErrPosition
	}
	copy(places, from)
	if state == Ready {
		return s.listReady(ctx, topic, places, limit)
	}
	pages, err := s.pages(ctx, state, topic, places)
	if err != nil {
		return Listing{}, err
	}
	jobs := merge(pages, limit)
	end := true
	for b := range places {
		places[b] = pages[b].advance(places[b], jobs, b)
		end = end && places[b].End
	}
	if end {
		return Listing{Jobs: jobs}, nil
	}
	return Listing{Jobs: jobs, Next: places}, nil
}

// page is what one bucket gave for a listing by score.
type page struct {
	jobs []Stored
	// last is the last entry that was looked at.
	last Place
	// horizon is the score up to which nothing of the bucket is missing.
	horizon float64
}

func (s *Store) pages(ctx context.Context, state State, topic string, places []Place) ([]page, error) {
	calls := make([]*call, 0, len(places))
	pages := make([]page, len(places))
	asked := make([]int, 0, len(places))
	for b := range places {
		pages[b] = page{last: places[b], horizon: math.Inf(1)}
		if places[b].End {
			continue
		}
		score := places[b].Score
		if score == "" {
			score = "-inf"
		}
		c := s.bucketCall(pageScript, b, 5)
		c.args = append(c.args, string(state), score, places[b].Member, pageScan, topic)
		calls, asked = append(calls, c), append(asked, b)
	}
	if err := s.send(ctx, calls...); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	for i, b := range asked {
		reply := list(calls[i].reply)
		if len(reply) != 5 {
			return nil, fmt.Errorf("list jobs: reply of %d entries", len(reply))
		}
		pages[b].jobs = s.storedOf(list(reply[4]))
		pages[b].last = Place{Score: text(reply[2]), Member: text(reply[3]), End: number(reply[1]) == 1}
		if !pages[b].last.End {
			pages[b].horizon = float64(number(reply[2]))
		}
	}
	return pages, nil
}

// merge puts the jobs of all buckets in order, up to where nothing is missing, and up to limit.
func merge(pages []page, limit int) []Stored {
	horizon := math.Inf(1)
	for _, p := range pages {
		horizon = min(horizon, p.horizon)
	}
	var jobs []Stored
	for _, p := range pages {
		for _, job := range p.jobs {
			if float64(job.At.UnixMilli()) <= horizon {
				jobs = append(jobs, job)
			}
		}
	}
	sort.SliceStable(jobs, func(i, j int) bool { return jobs[i].At.Before(jobs[j].At) })
	return jobs[:min(limit, len(jobs))]
}

// advance gives the place of a bucket behind what was taken of it: all that it looked at, or up to its last job on the page.
func (p *page) advance(from Place, taken []Stored, bucket int) Place {
	count := 0
	var last *Stored
	for i := range taken {
		if taken[i].Bucket == bucket {
			count++
			last = &taken[i]
		}
	}
	switch {
	case count == len(p.jobs):
		return p.last
	case last == nil:
		return from
	}
	return Place{Score: strconv.FormatInt(last.At.UnixMilli(), 10), Member: packID(last.ID)}
}

// listReady goes through the buckets one after the other, each in the order of its list.
func (s *Store) listReady(ctx context.Context, topic string, places []Place, limit int) (Listing, error) {
	for b := range places {
		if places[b].End {
			continue
		}
		c := s.listCall(listedScript, b, topic, places[b].At, min(limit, pageScan))
		if err := s.send(ctx, c); err != nil {
			return Listing{}, fmt.Errorf("list jobs: %w", err)
		}
		reply := list(c.reply)
		if len(reply) != 4 {
			return Listing{}, fmt.Errorf("list jobs: reply of %d entries", len(reply))
		}
		places[b].At, places[b].End = strconv.FormatInt(number(reply[2]), 10), number(reply[1]) == 1
		listing := Listing{Jobs: s.storedOf(list(reply[3])), Next: places}
		if places[b].End && b == len(places)-1 {
			listing.Next = nil
		}
		if len(listing.Jobs) > 0 || !places[b].End || listing.Next == nil {
			return listing, nil
		}
	}
	return Listing{}, nil
}
