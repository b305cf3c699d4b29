package bridge

import (
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// batch is what was published together and shares one barrier.
type batch struct {
	deliveries []*delay.Delivery
	flights    []*flight // beside deliveries
	owner      string
	leased     time.Time
	// reconnects and refusals are the link's counts from before the first publish; another number of reconnects
	// later means that some of the batch may be lost.
	reconnects uint64
	refusals   int
	// err says why nothing of the batch is certain.
	err error
	// passed is closed when the barrier is back.
	passed chan struct{}
	number uint64
}

// open notes the deliveries of a round as flights, and which hints were wrong.
func (d *dispatcher) open(r request, results []delay.Reserved, leased time.Time, owner string) *batch {
	b := &batch{owner: owner, leased: leased, passed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.landing()
	r.each(func(t *topic) { t.backlog = false })
	for bucket, parts := range r.parts {
		for i, p := range parts {
			if results[bucket].Topics == nil {
				d.giveUp(p)
				continue
			}
			got := &results[bucket].Topics[i]
			p.topic.backlog = p.topic.backlog || got.Left > 0
			if got.Left == 0 && p.topic.hints[bucket] == p.hint {
				p.topic.hints[bucket] = 0
			}
			for _, err := range got.Unreadable {
				d.log.Error().Err(err).Msg("job cannot be read")
			}
			d.board(b, p, got.Deliveries, delay.Reading{Local: leased, Clock: got.Clock})
		}
	}
	return b
}

// board divides what came of a part between its waiters and the subscribers. The caller holds mu.
func (d *dispatcher) board(b *batch, p part, deliveries []delay.Delivery, base delay.Reading) {
	t := p.topic
	t.popping -= p.pops
	subscribers := 0
	for i := range deliveries {
		v := &deliveries[i]
		f := d.fly(t, v, b.leased, base)
		if f == nil {
			continue
		}
		if p.pops > 0 {
			f.pop = d.nextWaiter(t, v.TTR == 0)
			p.pops--
		}
		if f.pop == nil {
			subscribers++
		}
		t.expiring = t.expiring || v.Expires > 0
		b.deliveries, b.flights = append(b.deliveries, v), append(b.flights, f)
	}
	t.out += subscribers - p.n
	if t.silent && p.n > 0 && subscribers == 0 {
		t.due = true // the probe found nothing in this bucket
	}
	if len(t.waiters) > 0 && !t.hinted() {
		d.look(t)
	}
	d.enqueue(t)
}

// publish sends a batch and then its barrier.
func (d *dispatcher) publish(b *batch) {
	b.reconnects, b.refusals = d.link.Stats().Reconnects, d.link.refused()
	d.mu.Lock()
	d.lastBarrier++
	b.number = d.lastBarrier
	d.barriers[b.number] = b
	d.fence()
	d.mu.Unlock()
	for i, v := range b.deliveries {
		now := d.now()
		if now.Sub(b.leased) > delay.LeaseTime/2 {
			b.err = errors.New("the lease is too old")
			break
		}
		base := &b.flights[i].base
		b.flights[i].late = now.Sub(base.When(v.DueAt))
		ack := d.subjects.ack(b.owner, v.ID, v.Push, v.Token)
		msg := readyMsg(v, d.subjects.ready(v.Topic), ack, d.msgID(v))
		d.follow(b.flights[i], d.trace.deliver(base, v, msg.Header))
		err := d.send(b.flights[i], v, msg)
		if concernsOne(err) {
			d.undeliverable(b.flights[i], v, err)
		} else if err != nil {
			b.err = err
			break
		}
	}
	if b.err == nil {
		b.err = d.link.Publish(d.subjects.barrier(b.owner, b.number), nil)
	}
	if b.err != nil {
		d.link.cut() // what is buffered of the batch must not follow once nobody waits for it: the fence goes with its barrier
	}
}

// send publishes a delivery, or hands it to the pop that waits for it.
func (d *dispatcher) send(f *flight, v *delay.Delivery, msg *nats.Msg) error {
	switch pop := f.pop; {
	case pop == nil:
	case pop.give == nil:
		msg.Subject = pop.reply
	default:
		if !pop.give(v, msg.Header) {
			d.unheard(f.key)
		}
		return nil
	}
	return d.link.PublishMsg(msg)
}

// fence tells the link which of the batches that are out was leased first. The caller holds mu.
func (d *dispatcher) fence() {
	var oldest *time.Time
	for _, b := range d.barriers {
		if oldest == nil || b.leased.Before(*oldest) {
			oldest = &b.leased
		}
	}
	d.link.oldest.Store(oldest)
}

// msgID is one value for each attempt of each push, also over kicks.
func (d *dispatcher) msgID(v *delay.Delivery) string {
	id := make([]byte, 0, 64)
	id = append(id, d.storeID...)
	for _, n := range []uint64{uint64(v.Bucket), v.Push, uint64(v.Serial)} {
		id = append(id, '.')
		id = strconv.AppendUint(id, n, 10)
	}
	return string(id)
}

// concernsOne reports whether an error of a publish is of the message alone.
func concernsOne(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrInvalidMsg) ||
		errors.Is(err, nats.ErrBadHeaderMsg)
}

// undeliverable makes a job dead that can no longer be sent.
func (d *dispatcher) undeliverable(f *flight, v *delay.Delivery, err error) {
	d.log.Error().Err(err).Str("id", v.ID).Str("topic", v.Topic).Int("bytes", len(v.Body)).Msg("job cannot be delivered, it is dead")
	d.drop(f)
	d.trace.returned(f, "too_large")
	ack := delay.Ack{ID: v.ID, Push: v.Push, Token: v.Token, Reason: "too_large"}
	d.queue.Settle(delay.VerbBury, ack, delay.Prompt, func(r delay.Settled) {
		if r.Err != nil {
			d.end(f.key)
		}
	})
}
