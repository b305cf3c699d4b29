package delay

import (
	"context"
	"fmt"
	"time"
)

// Pushed is what became of a push.
type Pushed struct {
	// DueAt is when the job is due; of a duplicate, the stored job's.
	DueAt time.Time
	// Duplicate says that the id was stored already, in State, and stays as it is.
	Duplicate bool
	State     State
	// Wait is how long until the job is due by Redis's clock; zero: it is ready.
	Wait time.Duration
	// Err is ErrTooFar, ErrOtherTopic, or an UnavailableError.
	Err error
}

// Push stores jobs. Results come in the order of jobs.
func (s *Store) Push(ctx context.Context, jobs []Job) []Pushed {
	results := make([]Pushed, len(jobs))
	parts := s.spread(len(jobs), func(i int) string { return jobs[i].ID },
		func(i int) int { return len(jobs[i].Body) + len(jobs[i].Headers) })
	calls := make([]*call, len(parts))
	for p, part := range parts {
		c := s.bucketCall(pushScript, s.BucketOf(jobs[part[0]].ID), 1+5*len(part))
		c.args = append(c.args, s.maxDelay.Milliseconds())
		for _, i := range part {
			j := &jobs[i]
			tail, outside := encodeTail(j)
			c.args = append(c.args, packID(j.ID), j.Topic, when(j), tail, outside)
		}
		c.replicas = s.waitReplicas
		calls[p] = c
	}
	_ = s.send(ctx, calls...) // each call has its own error
	for p, part := range parts {
		replies := list(calls[p].reply)
		for at, i := range part {
			switch {
			case calls[p].err != nil:
				results[i].Err = fmt.Errorf("push job: %w", calls[p].err)
			case len(replies) != len(part)+1:
				results[i].Err = &UnavailableError{Maybe: true, Cause: fmt.Errorf("push job: reply of %d entries", len(replies))}
			default:
				results[i] = pushedOf(&jobs[i], number(replies[0]), replies[at+1])
			}
		}
	}
	return results
}

// when gives the moment a job is due as the push script takes it.
func when(j *Job) any {
	if j.At.IsZero() {
		return fmt.Sprintf("+%d", j.Delay.Milliseconds())
	}
	ms := j.At.UnixMilli()
	if j.At.After(time.UnixMilli(ms)) {
		ms++
	}
	return max(ms, 0)
}

func pushedOf(j *Job, nowMicros int64, reply any) Pushed {
	switch reply := reply.(type) {
	case string:
		return Pushed{Err: ErrTooFar}
	case int64:
		if reply < 0 {
			return Pushed{DueAt: time.UnixMilli(-reply), State: Ready}
		}
		wait := time.Duration(reply*1000-nowMicros) * time.Microsecond
		return Pushed{DueAt: time.UnixMilli(reply), State: Delayed, Wait: max(wait, 1)}
	case []any:
		if len(reply) != 3 {
			break
		}
		p := Pushed{State: State(text(reply[0])), DueAt: time.UnixMilli(number(reply[1])), Duplicate: true}
		if topic := text(reply[2]); topic != j.Topic {
			p.Err = fmt.Errorf("%w: %s", ErrOtherTopic, topic)
		}
		return p
	}
	return Pushed{Err: &UnavailableError{Maybe: true, Cause: fmt.Errorf("push job: reply of type %T", reply)}}
}
