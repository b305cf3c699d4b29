package delay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// LeaseTime is how long a reserved job waits for its delivery to be certain.
	LeaseTime = 5 * time.Second
	// reserveBytes bounds the records that one reserve script sends.
	reserveBytes = 256 << 10
	// promoteBatch is how many jobs one promote script makes ready, offeredBatch where it may lease them.
	promoteBatch, offeredBatch = 256, 128
)

// Flight is a delivery that was out: whose it was and which.
type Flight struct {
	// Owner is the replica that delivered, as it named itself to Reserve.
	Owner  string
	Topic  string
	Bucket int
	Token  uint64
	// Certain says that it was confirmed: its TTR ran, not its lease.
	Certain bool
}

// DeadJob is a job that is dead, and why.
type DeadJob struct {
	Delivery
	Reason string
}

// Promotion is what one Promote did.
type Promotion struct {
	// Topics have new ready jobs.
	Topics []string
	// Ended are the deliveries whose lease or TTR ran out.
	Ended []Flight
	Died  []DeadJob
	// Leased are the deliveries that were offered a place, in the order of their due times. Those that are not due yet have
	// a time in Next.
	Leased []Delivery
	// Unreadable holds an error for each leased job whose record cannot be decoded; its lease runs out.
	Unreadable []error
	// Next is how long until the next job or deadline is due, or a little later where another replica watches for it; negative:
	// there is none.
	Next time.Duration
	// More is how many are due still, at least: a batch was full and there is a backlog. Then Next is of the first entry
	// that is not due.
	More int
	// Orphans is the number of ids that had no record and were dropped.
	Orphans int
	// Clock is the bucket's time: Redis's clock, but for Ahead, which is more than 0 where that clock went back.
	Clock time.Time
	Ahead time.Duration
	// Base is what is known of that time by the local clock; of a ticker's promotions alone.
	Base Reading
}

// Offer is what an owner would deliver at once: up to N jobs each of some topics, of patient ones also such that are due within
// Soon, which it must keep so long. Soon is 0 where no topic is patient.
type Offer struct {
	Owner  string
	Topics []Want
	Soon   time.Duration
}

// batch is how many jobs a promotion takes. What it does not lease goes into a list, and then nothing of the topic is
// leased until that is empty.
func (o Offer) batch() int {
	if len(o.Topics) > 0 {
		return offeredBatch
	}
	return promoteBatch
}

// Promote makes ready what is due in a bucket, and what was leased or delivered and not settled in time. Jobs of topics that
// are offered are leased instead, where none of their topic is ready already. Jobs of paused topics do not expire meanwhile.
func (s *Store) Promote(ctx context.Context, bucket int, offer Offer, paused []string) (Promotion, error) {
	return s.promote(ctx, nil, bucket, offer, paused)
}

// promote is Promote in company.
func (s *Store) promote(ctx context.Context, with *company, bucket int, offer Offer, paused []string) (Promotion, error) {
	kept := s.watches[bucket].Load()
	if s.retired.Load() {
		kept = retiredWatch
	}
	c := s.bucketCall(promoteScript, bucket, 7+3*len(offer.Topics)+len(paused))
	c.args = append(c.args, with.share(offer.batch()), offer.Owner, LeaseTime.Milliseconds(), with.share(reserveBytes), kept)
	c.args = append(c.args, offer.Soon.Milliseconds(), len(offer.Topics))
	for _, w := range offer.Topics {
		c.args = append(c.args, w.Topic, w.N, w.Patient)
	}
	for _, topic := range paused {
		c.args = append(c.args, topic)
	}
	err := with.send(ctx, s, c)
	if err != nil {
		s.watches[bucket].Store(noWatch)
		return Promotion{}, fmt.Errorf("promote bucket %d: %w", bucket, err)
	}
	reply := list(c.reply)
	if len(reply) != 11 {
		return Promotion{}, fmt.Errorf("promote bucket %d: reply of %d entries", bucket, len(reply))
	}
	now, next := number(reply[0]), number(reply[1])
	p := Promotion{
		Topics: texts(reply[3]), More: int(number(reply[2])), Orphans: int(number(reply[6])),
		Next: -1, Clock: time.UnixMicro(now), Ahead: time.Duration(number(reply[7])) * time.Microsecond,
	}
	s.keepWatch(bucket, kept, number(reply[9]))
	if next >= 0 {
		p.Next = max(time.Duration(next-now)*time.Microsecond, 0)
	}
	for _, value := range texts(reply[4]) {
		p.Ended = append(p.Ended, parseTry(value).flight(bucket))
	}
	p.Died = diedOf(reply[5])
	p.Leased, p.Unreadable = leasedOf(list(reply[8]), bucket)
	for entries := list(reply[10]); len(entries) > 3; {
		var d Delivery
		moment := time.UnixMilli(number(entries[0]))
		if d, entries, err = leased(entries[1:], bucket); err != nil {
			p.Unreadable = append(p.Unreadable, err)
			continue
		}
		d.Next = moment
		p.Leased = append(p.Leased, d)
	}
	return p, nil
}

// diedOf reads a list of id, value of tries, record and body. What cannot be read is dead all the same.
func diedOf(reply any) []DeadJob {
	var jobs []DeadJob
	for parts := texts(reply); len(parts) >= 4; parts = parts[4:] {
		if job, err := decodeDead(parts[0], parts[1], parts[2], parts[3]); err == nil {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// Want asks for up to N ready jobs of a topic.
type Want struct {
	Topic string
	N     int
	// Patient: of an offer, also for jobs that are not due yet.
	Patient bool
}

// Reserved is what one bucket gave of one topic after the other.
type Reserved struct {
	Topics []ReservedTopic
	// Died are jobs that had expired.
	Died []DeadJob
}

// ReservedTopic is what a bucket gave of a topic.
type ReservedTopic struct {
	Topic      string
	Deliveries []Delivery
	// Left is how many entries the topic's list still has.
	Left int
	// Clock is Redis's clock at the lease.
	Clock time.Time
	// Unreadable holds an error for each job whose record cannot be decoded; its lease runs out.
	Unreadable []error
}

func (s *Store) reserveCall(owner string, bucket int, wants []Want) *call {
	c := s.bucketCall(reserveScript, bucket, 3+2*len(wants))
	c.keys = append(make([]string, 0, fixedKeys+len(wants)), c.keys...)
	c.args = append(c.args, owner, LeaseTime.Milliseconds(), reserveBytes)
	for _, w := range wants {
		c.keys = append(c.keys, s.buckets[bucket].lists+w.Topic)
		c.args = append(c.args, w.Topic, min(w.N, maxBatch))
	}
	return c
}

// Reserve leases ready jobs for owner: wants holds what each bucket is asked for, by its number. Topics come back in the
// order of wants; a bucket that could not be asked has none.
func (s *Store) Reserve(ctx context.Context, owner string, wants [][]Want) ([]Reserved, error) {
	var calls []*call
	var asked []int
	for b := range wants {
		if len(wants[b]) > 0 {
			calls = append(calls, s.reserveCall(owner, b, wants[b]))
			asked = append(asked, b)
		}
	}
	err := s.send(ctx, calls...)
	results := make([]Reserved, len(wants))
	for i, b := range asked {
		if calls[i].err == nil {
			results[b] = reservedOf(calls[i].reply, b, wants[b])
		}
	}
	if err != nil {
		return results, fmt.Errorf("reserve: %w", err)
	}
	return results, nil
}

func reservedOf(reply any, bucket int, wants []Want) Reserved {
	replies := list(reply)
	results := make([]ReservedTopic, len(wants))
	if len(replies) != len(wants)+2 {
		return Reserved{}
	}
	for i := range wants {
		results[i].Topic = wants[i].Topic
		entries := list(replies[i+2])
		if len(entries) == 0 {
			continue
		}
		results[i].Left = int(number(entries[0]))
		results[i].Clock = time.UnixMicro(number(replies[0]))
		results[i].Deliveries, results[i].Unreadable = leasedOf(entries[1:], bucket)
	}
	return Reserved{Topics: results, Died: diedOf(replies[1])}
}

// leasedOf reads what lease.lua gives of jobs, and why some cannot be read.
func leasedOf(entries []any, bucket int) ([]Delivery, []error) {
	deliveries := make([]Delivery, 0, len(entries)/3)
	var unreadable []error
	for len(entries) >= 3 {
		var d Delivery
		var err error
		if d, entries, err = leased(entries, bucket); err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		deliveries = append(deliveries, d)
	}
	return deliveries, unreadable
}

// leased reads the first delivery of some, and gives the rest.
func leased(entries []any, bucket int) (Delivery, []any, error) {
	value, record, outside := text(entries[1]), text(entries[2]), ""
	t := parseTry(value)
	d := Delivery{
		Job: Job{ID: unpackID(text(entries[0]))}, Bucket: bucket, Token: t.token, Attempt: t.n - t.base + 1, Serial: t.n + 1,
		Before: endingOf(t.reason), // a leased job has no reason
	}
	if t.reason != "" {
		value = value[:len(value)-len(t.reason)-1]
	}
	entries = entries[3:]
	if isOutside(record) && len(entries) > 0 {
		outside, entries = text(entries[0]), entries[1:]
	}
	err := decodeRecord(&d, record, outside)
	d.Lease = Lease{ID: d.ID, Token: d.Token, value: value}
	return d, entries, err
}

// Lease names a delivery whose outcome is told.
type Lease struct {
	ID    string
	Token uint64
	// TTR is the time to run that is left; zero: the job is removed, it was handed over.
	TTR time.Duration
	// value is what tries holds while the delivery is leased; empty: not known.
	value string
}

// confirmed is what tries holds once the delivery is certain; empty where it is not known.
func (l Lease) confirmed() string {
	if l.value == "" {
		return ""
	}
	t := parseTry(l.value)
	t.n++
	t.phase = "c"
	return t.String()
}

// Confirm makes deliveries certain. A false says that the lease was over or the job settled already.
func (s *Store) Confirm(ctx context.Context, leases []Lease) ([]bool, error) {
	return s.tell(ctx, confirmScript, leases, func(args []any, l Lease) []any {
		return append(args, packID(l.ID), l.Token, l.TTR.Milliseconds(), l.value, l.confirmed())
	})
}

// Return gives leases back: the jobs are ready again and no attempt counts.
func (s *Store) Return(ctx context.Context, leases []Lease) ([]bool, error) {
	return s.tell(ctx, returnScript, leases, func(args []any, l Lease) []any {
		return append(args, packID(l.ID), l.Token)
	})
}

// Undo takes back deliveries that were confirmed, or are still leased: the jobs are ready again and the attempt does not
// count. A false says that the delivery is over.
func (s *Store) Undo(ctx context.Context, leases []Lease) ([]bool, error) {
	return s.tell(ctx, undoScript, leases, func(args []any, l Lease) []any {
		return append(args, packID(l.ID), l.Token)
	})
}

func (s *Store) tell(ctx context.Context, sc *script, leases []Lease, add func([]any, Lease) []any) ([]bool, error) {
	parts := s.spread(len(leases), func(i int) string { return leases[i].ID }, weightless)
	calls := make([]*call, len(parts))
	for p, part := range parts {
		calls[p] = s.bucketCall(sc, s.BucketOf(leases[part[0]].ID), 3*len(part))
		calls[p].jobs = len(part)
		for _, i := range part {
			calls[p].args = add(calls[p].args, leases[i])
		}
	}
	err := s.send(ctx, calls...)
	done := make([]bool, len(leases))
	for p, part := range parts {
		replies := list(calls[p].reply)
		for at, i := range part {
			done[i] = at < len(replies) && number(replies[at]) == 1
		}
	}
	if err != nil {
		return done, fmt.Errorf("%s deliveries: %w", sc.name, err)
	}
	return done, nil
}

// Flying reports which of some leases are still the present delivery of their job, leased or confirmed.
func (s *Store) Flying(ctx context.Context, leases []Lease) ([]bool, error) {
	values := make([]*redis.StringCmd, len(leases))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, l := range leases {
			values[i] = pipe.HGet(ctx, s.buckets[s.BucketOf(l.ID)].fixed[keyTries], packID(l.ID))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("look for deliveries: %w", unavailable(err))
	}
	flying := make([]bool, len(leases))
	for i, l := range leases {
		t := parseTry(values[i].Val())
		flying[i] = t.token == l.Token && (t.phase == "l" || t.phase == "c")
	}
	return flying, nil
}
