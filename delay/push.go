package delay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Pushed is what became of a push.
type Pushed struct {
	// DueAt is when the job is due; of a duplicate, the stored job's.
	DueAt time.Time
	// Duplicate says that the id was stored already, in State, and stays as it is. Where State is Unknown, this very
	// push was carried out before, and the job may be gone by now.
	Duplicate bool
	State     State
	// Replaced says that the job took the place of a stored one.
	Replaced bool
	// Wait is how long until the job is due by Redis's clock; zero: it is ready.
	Wait time.Duration
	// Watch says that this replica keeps the bucket's watch until then: no other one looks for the job in time.
	Watch bool
	// Err is ErrTooFar, ErrOtherTopic, ErrLeased, ErrState (a replace met a job in flight), or an UnavailableError.
	Err error
}

// Push stores jobs. Results come in the order of jobs.
func (s *Store) Push(ctx context.Context, jobs []Job) []Pushed {
	pointers := make([]*Job, len(jobs))
	for i := range jobs {
		pointers[i] = &jobs[i]
	}
	return perform(ctx, s, s.pushing(pointers))
}

// pushing is the work of storing jobs.
func (s *Store) pushing(jobs []*Job) work[Pushed] {
	parts := s.spread(len(jobs), func(i int) string { return jobs[i].ID },
		func(i int) int { return len(jobs[i].Body) + len(jobs[i].Headers) })
	parts = apart(parts, jobs)
	w := work[Pushed]{calls: make([]*call, len(parts))}
	for p, part := range parts {
		w.calls[p] = s.pushCall(jobs, part)
	}
	w.results = func() []Pushed {
		results := make([]Pushed, len(jobs))
		for p, part := range parts {
			s.pushedBy(w.calls[p], jobs, part, results)
		}
		return results
	}
	return w
}

// pushedBy reads what a call did to a part of some jobs.
func (s *Store) pushedBy(c *call, jobs []*Job, part []int, results []Pushed) {
	replies, watch := list(c.reply), int64(0)
	if len(replies) == len(part)+2 {
		watch = number(replies[len(part)+1])
	}
	if kept := &s.watches[s.BucketOf(jobs[part[0]].ID)]; c.err != nil {
		kept.Store(noWatch)
	} else if watch > 0 {
		kept.Store(watch)
	}
	for at, i := range part {
		switch {
		case c.err != nil:
			results[i].Err = fmt.Errorf("push job: %w", c.err)
		case len(replies) != len(part)+2:
			results[i].Err = &UnavailableError{Maybe: true, Cause: fmt.Errorf("push job: reply of %d entries", len(replies))}
		default:
			results[i] = pushedOf(jobs[i], number(replies[0]), replies[at+1])
			results[i].Watch = watch > 0 && results[i].DueAt.UnixMicro() == watch
		}
	}
}

// pushCall is the call for some jobs of one bucket.
func (s *Store) pushCall(jobs []*Job, part []int) *call {
	bucket := s.BucketOf(jobs[part[0]].ID)
	c := s.bucketCall(pushScript, bucket, 5+2*len(part)) // as many as one run without extras has
	c.args = append(c.args, s.maxDelay.Milliseconds())
	c.replicas, c.jobs = s.waitReplicas, len(part)
	streamed := slices.ContainsFunc(part, func(i int) bool { return jobs[i].Origin.Mark != "" })
	if streamed {
		c.keys = append(slices.Clone(c.keys), s.buckets[bucket].seen)
	}
	tails := tailsOf(jobs, part)
	c.texts = make([]string, 0, 2*len(part))
	for len(part) > 0 {
		first, n := jobs[part[0]], 1
		for n < len(part) && alike(jobs[part[n]], first) {
			n++
		}
		c.args = append(c.args, n, first.Topic, when(first.Delay, first.At), flagsOf(first))
		for at, i := range part[:n] {
			c.addJob(jobs[i], tails[at], streamed)
		}
		part, tails = part[n:], tails[n:]
	}
	return c
}

// tail is the end of a job's record, and the body to keep beside it, nil for none.
type tail struct {
	text    string
	outside []byte
}

// tailsOf gives the tails of some jobs, in one piece of memory.
func tailsOf(jobs []*Job, part []int) []tail {
	size := 0
	for _, i := range part {
		size += tailSize(jobs[i])
	}
	all, ends, tails := make([]byte, 0, size), make([]int, len(part)), make([]tail, len(part))
	for at, i := range part {
		all, tails[at].outside = appendTail(all, jobs[i])
		ends[at] = len(all)
	}
	text, from := string(all), 0
	for at, end := range ends {
		tails[at].text, from = text[from:end], end
	}
	return tails
}

// alike reports whether two jobs can be of one run of a call.
func alike(a, b *Job) bool {
	return a.Topic == b.Topic && a.Delay == b.Delay && a.At.Equal(b.At) && flagsOf(a) == flagsOf(b)
}

// addJob adds what a job does not share with its run.
func (c *call) addJob(j *Job, t tail, streamed bool) {
	c.addText(packID(j.ID))
	c.addText(t.text)
	if t.outside != nil {
		c.args = append(c.args, t.outside)
	}
	if streamed {
		c.args = append(c.args, j.Origin.Seq, j.Origin.Mark)
	}
}

// apart splits parts so that an id that is replaced stands once in each: the script looks up all ids at its beginning.
func apart(parts [][]int, jobs []*Job) [][]int {
	if !slices.ContainsFunc(jobs, func(j *Job) bool { return j.Replace }) {
		return parts
	}
	var split [][]int
	for _, part := range parts {
		seen, start := make(map[string]bool, len(part)), 0
		for at, i := range part {
			if seen[jobs[i].ID] {
				split = append(split, part[start:at])
				clear(seen)
				start = at
			}
			seen[jobs[i].ID] = true
		}
		split = append(split, part[start:])
	}
	return split
}

// when gives a moment as the scripts take it.
func when(delay time.Duration, at time.Time) any {
	if at.IsZero() {
		return "+" + strconv.FormatInt(delay.Milliseconds(), 10)
	}
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	return max(ms, 0)
}

func flagsOf(j *Job) string {
	flags := ""
	if len(j.Body) > maxInline {
		flags += flagOutside
	}
	if j.Expires > 0 {
		flags += flagExpires
	}
	if j.Replace {
		flags += "r"
	}
	if j.Origin.Generated {
		flags += "g"
	}
	return flags
}

func pushedOf(j *Job, nowMicros int64, reply any) Pushed {
	switch reply := reply.(type) {
	case string:
		return Pushed{Err: ErrTooFar}
	case int64:
		return storedAt(reply, nowMicros)
	case []any:
		if len(reply) != 3 {
			break
		}
		switch outcome := text(reply[0]); outcome {
		case "leased":
			return Pushed{Err: ErrLeased}
		case "again":
			return Pushed{Duplicate: true, State: Unknown}
		case "replaced":
			p := storedAt(number(reply[1]), nowMicros)
			p.Replaced = true
			return p
		default:
			p := Pushed{State: State(outcome), DueAt: time.UnixMilli(number(reply[1])), Duplicate: true}
			if topic := text(reply[2]); topic != j.Topic {
				p.Err = fmt.Errorf("%w: %s", ErrOtherTopic, topic)
			} else if j.Replace {
				p.Err = ErrState
			}
			return p
		}
	}
	return Pushed{Err: &UnavailableError{Maybe: true, Cause: fmt.Errorf("push job: reply of type %T", reply)}}
}

// storedAt reads a due time as the push script gives it: ms, negative where the job is ready at once.
func storedAt(due, nowMicros int64) Pushed {
	if due < 0 {
		return Pushed{DueAt: time.UnixMilli(-due), State: Ready}
	}
	wait := time.Duration(due*1000-nowMicros) * time.Microsecond
	return Pushed{DueAt: time.UnixMilli(due), State: Delayed, Wait: max(wait, 1)}
}
