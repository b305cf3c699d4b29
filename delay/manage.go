package delay

import (
	"context"
	"fmt"
	"time"
)

// Rescheduled is what became of a reschedule.
type Rescheduled struct {
	State State
	DueAt time.Time
	Topic string
}

// Reschedule gives a waiting job another due time: after delay, or at a moment where at is set.
// Its error is ErrNotFound, ErrState (in flight or dead, as the result says), ErrLeased, ErrTooFar, or an UnavailableError.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration, at time.Time) (Rescheduled, error) {
	c := s.bucketCall(rescheduleScript, s.BucketOf(id), 3)
	c.args = append(c.args, s.maxDelay.Milliseconds(), packID(id), when(delay, at))
	if err := s.send(ctx, c); err != nil {
		return Rescheduled{}, fmt.Errorf("reschedule job: %w", err)
	}
	replies := list(c.reply)
	if len(replies) != 1 || len(list(replies[0])) != 4 {
		return Rescheduled{}, fmt.Errorf("reschedule job: unexpected reply %v", c.reply)
	}
	entries := list(replies[0])
	r := Rescheduled{State: State(text(entries[1])), DueAt: time.UnixMilli(number(entries[2])), Topic: text(entries[3])}
	switch text(entries[0]) {
	case "ok":
		return r, nil
	case "none":
		return r, ErrNotFound
	case "leased":
		return r, ErrLeased
	case "far":
		return r, ErrTooFar
	}
	return r, ErrState
}

// Kicked is what became of a kick.
type Kicked struct {
	ID    string
	Topic string
	// State is the job's as it was found.
	State State
	// Err is ErrNotFound, ErrState where it is not dead, or an UnavailableError.
	Err error
}

// Kick makes dead jobs ready again with a fresh budget of attempts.
func (s *Store) Kick(ctx context.Context, ids []string) []Kicked {
	parts := s.spread(len(ids), func(i int) string { return ids[i] }, weightless)
	calls := make([]*call, len(parts))
	for p, part := range parts {
		calls[p] = s.bucketCall(kickScript, s.BucketOf(ids[part[0]]), len(part))
		for _, i := range part {
			calls[p].args = append(calls[p].args, packID(ids[i]))
		}
	}
	_ = s.send(ctx, calls...) // each call has its own error
	results := make([]Kicked, len(ids))
	for p, part := range parts {
		replies := list(calls[p].reply)
		for at, i := range part {
			switch {
			case calls[p].err != nil:
				results[i] = Kicked{ID: ids[i], State: Dead, Err: fmt.Errorf("kick job: %w", calls[p].err)}
			case len(replies) != len(part):
				cause := fmt.Errorf("kick job: reply of %d entries", len(replies))
				results[i] = Kicked{ID: ids[i], State: Dead, Err: &UnavailableError{Maybe: true, Cause: cause}}
			default:
				results[i] = kickedOf(ids[i], replies[at])
			}
		}
	}
	return results
}

// kickedOf reads the topic of a job that was kicked, or a list of the state that one was found in.
func kickedOf(id string, reply any) Kicked {
	state := texts(reply)
	if len(state) != 1 {
		return Kicked{ID: id, Topic: text(reply), State: Dead}
	}
	k := Kicked{ID: id, State: State(state[0]), Err: ErrState}
	if k.State == Unknown {
		k.Err = ErrNotFound
	}
	return k
}

// Purge removes jobs of a topic that are still in a state: delayed, in flight or dead. It gives how many were removed
// and the deliveries that ended with them. The ids may be of any buckets.
func (s *Store) Purge(ctx context.Context, topic string, state State, ids []string) (int, []Flight, error) {
	parts := s.spread(len(ids), func(i int) string { return ids[i] }, weightless)
	calls := make([]*call, len(parts))
	for p, part := range parts {
		calls[p] = s.bucketCall(purgeScript, s.BucketOf(ids[part[0]]), 2+len(part))
		calls[p].args = append(calls[p].args, topic, string(state))
		for _, i := range part {
			calls[p].args = append(calls[p].args, packID(ids[i]))
		}
	}
	err := s.send(ctx, calls...)
	n := 0
	var ended []Flight
	for p, part := range parts {
		reply := list(calls[p].reply)
		if len(reply) != 2 {
			continue
		}
		n += len(list(reply[0]))
		for _, value := range texts(reply[1]) {
			ended = append(ended, parseTry(value).flight(s.BucketOf(ids[part[0]])))
		}
	}
	if err != nil {
		return n, ended, fmt.Errorf("purge topic: %w", err)
	}
	return n, ended, nil
}

// listCall begins a call of a script that works on a topic's list.
func (s *Store) listCall(sc *script, bucket int, topic string, args ...any) *call {
	c := s.bucketCall(sc, bucket, 1+len(args))
	c.keys = append(append(make([]string, 0, fixedKeys+1), c.keys...), s.buckets[bucket].lists+topic)
	c.args = append(append(c.args, topic), args...)
	return c
}

// numbersOf sends a call and reads a reply of whole numbers.
func (s *Store) numbersOf(ctx context.Context, c *call, n int) ([]int, error) {
	if err := s.send(ctx, c); err != nil {
		return nil, fmt.Errorf("%s: %w", c.script.name, err)
	}
	reply := list(c.reply)
	if len(reply) != n {
		return nil, fmt.Errorf("%s: unexpected reply %v", c.script.name, c.reply)
	}
	numbers := make([]int, n)
	for i, v := range reply {
		numbers[i] = int(number(v))
	}
	return numbers, nil
}

// PurgeReady removes the first ready jobs of a topic's list in a bucket: how many, and how many entries are left.
func (s *Store) PurgeReady(ctx context.Context, bucket int, topic string) (int, int, error) {
	n, err := s.numbersOf(ctx, s.listCall(emptyScript, bucket, topic, maxBatch), 2)
	if err != nil {
		return 0, 0, err
	}
	return n[0], n[1], nil
}

// Retain drops jobs of a bucket that are dead for longer than age (0: none), and the dead ones among ids. It gives how
// many of the old ones and how many of the named ones.
func (s *Store) Retain(ctx context.Context, bucket int, age time.Duration, ids []string) (int, int, error) {
	c := s.bucketCall(retainScript, bucket, 2+len(ids))
	c.args = append(c.args, age.Milliseconds(), maxBatch)
	for _, id := range ids {
		c.args = append(c.args, packID(id))
	}
	n, err := s.numbersOf(ctx, c, 2)
	if err != nil {
		return 0, 0, err
	}
	return n[0], n[1], nil
}

// Expire makes those of the first ready jobs of a topic dead, in each bucket, that are too late for their first delivery.
// It gives them, and how many of the others looked at may expire another time.
func (s *Store) Expire(ctx context.Context, topic string, limit int) ([]DeadJob, int, error) {
	calls := make([]*call, len(s.buckets))
	for b := range calls {
		calls[b] = s.listCall(expireScript, b, topic, limit)
	}
	err := s.send(ctx, calls...)
	var died []DeadJob
	later := 0
	for _, c := range calls {
		if reply := list(c.reply); len(reply) == 2 {
			died = append(died, diedOf(reply[0])...)
			later += int(number(reply[1]))
		}
	}
	if err != nil {
		return died, later, fmt.Errorf("expire jobs: %w", err)
	}
	return died, later, nil
}

// Compact takes stale ids out of the head of a topic's list, where it has more than slack of them, and gives how many.
func (s *Store) Compact(ctx context.Context, bucket int, topic string, slack int) (int, error) {
	c := s.listCall(compactScript, bucket, topic, maxBatch, slack)
	if err := s.send(ctx, c); err != nil {
		return 0, fmt.Errorf("compact list: %w", err)
	}
	return int(number(c.reply)), nil
}
