package delay

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Ack names the job, or the one delivery of it, that a verb is about.
type Ack struct {
	ID string
	// Push and Token are of the delivery that is answered; zero: the present one, by id alone.
	Push, Token uint64
	// Attempt fences a verb by id; zero: any.
	Attempt int
	// Delay until the job comes again, where HasDelay; else the job's own backoff. Release only.
	Delay    time.Duration
	HasDelay bool
	// Reason is the dead job's. Bury only.
	Reason string
}

// Settled is what became of a verb.
type Settled struct {
	// State is the job's now, and At its due time, deadline or time of death; of a refused verb, and of a finish, as it
	// was found.
	State State
	At    time.Time
	// Finished says that a finish removed a job.
	Finished bool
	// Topic is the job's, where the script told it.
	Topic string
	// Flight is the delivery that ended, nil where none was out.
	Flight *Flight
	// Died is set where the verb made the job dead.
	Died *DeadJob
	// Err is ErrNotFound, ErrOtherPush, ErrOldAttempt, ErrState, or an UnavailableError.
	Err error
}

// Finish removes jobs, in whatever state they are. One that is not there is no error.
func (s *Store) Finish(ctx context.Context, acks []Ack) []Settled {
	return perform(ctx, s, s.settling(verbFinish, acks))
}

// Release ends flights on the worker's word.
func (s *Store) Release(ctx context.Context, acks []Ack) []Settled {
	return perform(ctx, s, s.settling(verbRelease, acks))
}

// Touch starts the TTR of flights again.
func (s *Store) Touch(ctx context.Context, acks []Ack) []Settled {
	return perform(ctx, s, s.settling(verbTouch, acks))
}

// Bury makes jobs dead at once, in whatever state but dead they are.
func (s *Store) Bury(ctx context.Context, acks []Ack) []Settled {
	return perform(ctx, s, s.settling(verbBury, acks))
}

// addAck adds a verb's arguments about one job.
func (c *call) addAck(v verb, a *Ack) {
	c.addText(packID(a.ID))
	c.args = append(c.args, fence(&a.Push))
	if v != verbFinish {
		attempt := uint64(a.Attempt)
		c.args = append(c.args, fence(&a.Token), fence(&attempt))
	}
	switch {
	case v == verbRelease && a.HasDelay:
		c.args = append(c.args, a.Delay.Milliseconds())
	case v == verbRelease:
		c.args = append(c.args, "")
	case v == verbBury:
		c.args = append(c.args, a.Reason)
	}
}

func (v verb) script() *script {
	return [verbs]*script{
		verbPush: pushScript, verbFinish: finishScript, verbRelease: releaseScript, verbTouch: touchScript, verbBury: buryScript,
	}[v]
}

// fence gives a number as the scripts take it: empty stands for any. The client follows the pointer, which an interface
// holds without memory of its own.
func fence(n *uint64) any {
	if *n == 0 {
		return ""
	}
	return n
}

// settling is the work of a verb.
func (s *Store) settling(v verb, acks []Ack) work[Settled] {
	parts := s.spread(len(acks), func(i int) string { return acks[i].ID }, weightless)
	w := work[Settled]{calls: make([]*call, len(parts))}
	for p, part := range parts {
		c := s.bucketCall(v.script(), s.BucketOf(acks[part[0]].ID), 5*len(part))
		c.jobs, c.texts = len(part), make([]string, 0, len(part))
		for _, i := range part {
			c.addAck(v, &acks[i])
		}
		w.calls[p] = c
	}
	w.results = func() []Settled {
		results := make([]Settled, len(acks))
		for p, part := range parts {
			s.settledBy(w.calls[p], v, acks, part, results)
		}
		return results
	}
	return w
}

// settledBy reads what a call did to a part of some jobs.
func (s *Store) settledBy(c *call, v verb, acks []Ack, part []int, results []Settled) {
	replies := list(c.reply)
	for at, i := range part {
		a := &acks[i]
		switch {
		case c.err != nil:
			results[i].Err = fmt.Errorf("%s job: %w", c.script.name, c.err)
		case len(replies) != len(part):
			results[i].Err = &UnavailableError{Maybe: true, Cause: fmt.Errorf("%s job: reply of %d entries", c.script.name, len(replies))}
		case v == verbFinish:
			results[i] = finishedOf(s.BucketOf(a.ID), replies[at])
		default:
			results[i] = settledOf(a, s.BucketOf(a.ID), replies[at])
		}
	}
}

func finishedOf(bucket int, reply any) Settled {
	value, found := reply.(string)
	switch {
	case !found && number(reply) < 0:
		return Settled{State: Unknown, Err: ErrOtherPush}
	case !found || value == "":
		return Settled{State: Unknown}
	case value[0] > '9':
		return Settled{State: stateOf(value[0]), Finished: true, Topic: value[1:]}
	}
	flight := parseTry(value).flight(bucket)
	return Settled{State: InFlight, Finished: true, Topic: flight.Topic, Flight: &flight}
}

// stateOf gives the state that the scripts count under a letter.
func stateOf(letter byte) State {
	switch letter {
	case 'd':
		return Delayed
	case 'r':
		return Ready
	case 'i':
		return InFlight
	case 'x':
		return Dead
	}
	return Unknown
}

func settledOf(a *Ack, bucket int, reply any) Settled {
	entries := list(reply)
	if len(entries) != 6 {
		return Settled{Err: &UnavailableError{Maybe: true, Cause: fmt.Errorf("settle job: reply of %d entries", len(entries))}}
	}
	result := Settled{State: State(text(entries[1])), At: time.UnixMilli(number(entries[2]))}
	switch outcome := text(entries[0]); outcome {
	case "ok", "same":
	case "none":
		result.State, result.Err = Unknown, ErrNotFound
	case "push":
		result.State, result.Err = Unknown, ErrOtherPush
	case "attempt":
		result.Err = ErrOldAttempt
	default:
		result.Err = ErrState
	}
	if value := text(entries[3]); value != "" {
		flight := parseTry(value).flight(bucket)
		result.Flight, result.Topic = &flight, flight.Topic
		if record := text(entries[4]); record != "" {
			if job, err := decodeDead(packID(a.ID), value, record, text(entries[5])); err == nil {
				result.Died = &job
			}
		}
	}
	return result
}

// try is a value of the hash tries, as tries.lua writes it.
type try struct {
	push, token   uint64
	n, base       int
	owner, phase  string
	topic, reason string
}

func parseTry(value string) try {
	var fields [7]string
	for i := range fields {
		fields[i], value = nextField(value)
	}
	t := try{owner: fields[4], phase: fields[5], topic: fields[6], reason: value}
	t.push, _ = strconv.ParseUint(fields[0], 10, 64)
	t.token, _ = strconv.ParseUint(fields[1], 10, 64)
	t.n, _ = strconv.Atoi(fields[2])
	t.base, _ = strconv.Atoi(fields[3])
	return t
}

// String is the value of a job that is not dead.
func (t try) String() string {
	return fmt.Sprintf("%d %d %d %d %s %s %s", t.push, t.token, t.n, t.base, t.owner, t.phase, t.topic)
}

func (t try) flight(bucket int) Flight {
	return Flight{Owner: t.owner, Topic: t.topic, Bucket: bucket, Token: t.token, Certain: t.phase == "c"}
}

func decodeDead(stored, value, record, body string) (DeadJob, error) {
	t := parseTry(value)
	job := DeadJob{Delivery: Delivery{Job: Job{ID: unpackID(stored)}, Token: t.token, Attempt: t.n - t.base, Serial: t.n}, Reason: t.reason}
	return job, decodeRecord(&job.Delivery, record, body)
}
