package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// ackPending bounds what waits in the client for the ack handler: a dropped "nobody listens" would look like a
	// delivery, so it is far more than the windows let out.
	ackPending      = 4 << 20
	ackPendingBytes = 512 << 20
	// coverFor is how long the acks of a dead replica's slot are taken by others.
	coverFor = 24 * time.Hour
	// ackQueue is the queue group of those who take a dead replica's acks: one of them is enough.
	ackQueue = "dqbridge-acks"
	// patience is how old a flight is when the replica asks Redis about it, maxPatience the longest pause between two
	// such questions.
	patience    = 2 * time.Second
	maxPatience = 30 * time.Second
	// maxNote bounds a note to another replica, bytes.
	maxNote = 512 << 10
	// pauseLook is how often a replica reads which topics are paused.
	pauseLook = 400 * time.Millisecond
)

// replicas keeps this replica's slot, takes the acks of slots whose replicas are gone, and tells the others of their
// flights that ended here.
type replicas struct {
	queue    *delay.Queue
	link     *Link
	subjects subjects
	acks     *acks
	metrics  *metrics
	log      zerolog.Logger
	process  string
	about    string
	now      func() time.Time

	// mu guards what follows.
	mu   sync.Mutex
	slot int
	own  *nats.Subscription
	// beaten is when the last beat was sent that came through.
	beaten time.Time
	// told is where this replica hears of its flights while it leaves; nil else.
	told    *nats.Subscription
	covered map[int]*nats.Subscription
	// revived holds the covered slots that beat again since the last look: they are dropped at the next one.
	revived map[int]bool
	slots   []delay.Slot
	leaving bool
	// copies holds, while an ack may come over two subscriptions of ours, of which one copy was passed on and how often:
	// above 0 of the plain one, below 0 of the one in the queue group; nil else.
	copies map[string]int

	// notes guards noted: the lines of the notes to other replicas, by subject; wake has room for one note that there
	// are some.
	notes sync.Mutex
	noted map[string][]byte
	wake  chan struct{}
}

// join takes a slot and subscribes to its acks. It is repeated until it succeeds.
func (r *replicas) join(ctx context.Context) error {
	slot, slots, err := r.queue.Beat(ctx, delay.Presence{Process: r.process, About: r.about})
	if err != nil {
		return err
	}
	return r.adopt(slot, slots)
}

// adopt takes what a beat said: perhaps another slot, and who else is there.
func (r *replicas) adopt(slot int, slots []delay.Slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = slots
	if r.own != nil && slot == r.slot {
		r.claim()
		return nil
	}
	sub, err := r.link.Subscribe(r.subjects.acks(slot), r.handleOnce)
	if err != nil {
		return fmt.Errorf("subscribe acks: %w", err)
	}
	if err := sub.SetPendingLimits(ackPending, ackPendingBytes); err != nil {
		return fmt.Errorf("subscribe acks: %w", err)
	}
	if r.own != nil {
		r.log.Warn().Int("slot", slot).Int("before", r.slot).Msg("slot was lost, another one is taken")
		_ = r.own.Drain() // fails only where the connection is gone
	} else {
		r.log.Info().Int("slot", slot).Msg("slot is taken")
	}
	r.own, r.slot = sub, slot
	r.acks.dispatcher.rename(owner{slot, r.process}.String())
	r.queue.SetLane(slot)
	r.claim()
	return nil
}

// claim tells those who cover this replica's slot to leave that to it, or acks would be carried out twice, and the second
// answer, that there is no such job, might come first. The caller holds mu.
func (r *replicas) claim() {
	if r.leaving {
		return
	}
	covering := slices.DeleteFunc(slices.Clone(r.slots), func(s delay.Slot) bool {
		return s.Number == r.slot || !s.Alive() || !slices.Contains(s.Covers, r.slot)
	})
	// The server has the subscription before the others drop theirs.
	if len(covering) == 0 || r.link.flush() != nil {
		return
	}
	for _, s := range covering {
		subject := r.subjects.note(owner{s.Number, s.Process}.String(), wordTaken) + "." + strconv.Itoa(r.slot)
		_ = r.link.Publish(subject, nil) // cover makes good what is lost
	}
}

// uncover leaves the acks of a slot to its replica.
func (r *replicas) uncover(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sub := r.covered[slot]; sub != nil {
		_ = sub.Drain() // fails only where the connection is gone; what has arrived is still handled
		delete(r.covered, slot)
		delete(r.revived, slot)
	}
}

// run beats until ctx ends.
func (r *replicas) run(ctx context.Context) {
	each(ctx, delay.BeatEvery, func() {
		if err := r.beat(ctx); err != nil && ctx.Err() == nil {
			r.metrics.trouble("beat", err)
		}
		r.reconcile(ctx)
		r.announce(r.acks.dispatcher.awaited())
		r.acks.dispatcher.forget()
	})
}

// watchPauses keeps the dispatcher told of the paused topics until ctx ends.
func (r *replicas) watchPauses(ctx context.Context) {
	look := time.NewTicker(pauseLook)
	defer look.Stop()
	for {
		if err := r.readPauses(ctx); err != nil && ctx.Err() == nil {
			r.metrics.trouble("read paused topics", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (r *replicas) readPauses(ctx context.Context) error {
	reading := r.acks.dispatcher.pauseReading()
	names, err := r.queue.Paused(ctx)
	if err == nil {
		r.acks.dispatcher.setPaused(reading, names)
	}
	return err
}

func (r *replicas) beat(ctx context.Context) error {
	r.mu.Lock()
	p := delay.Presence{Process: r.process, About: r.about, Leaving: r.leaving}
	for slot := range r.covered {
		p.Covers = append(p.Covers, slot)
	}
	r.mu.Unlock()
	slices.Sort(p.Covers)
	asked := r.now()
	slot, slots, err := r.queue.Beat(ctx, p)
	if err != nil {
		return err
	}
	if err := r.adopt(slot, slots); err != nil {
		return err
	}
	alive := 0
	for _, s := range slots {
		if s.Alive() {
			alive++
		}
	}
	r.acks.dispatcher.shareProbes(max(alive, 1))
	return r.cover(asked, slots)
}

// cover subscribes to the acks of slots whose replicas are gone, and leaves those that have a replica again, one beat
// after it was seen, if that did not claim its acks before: so there is always somebody. The slots are as a beat told that was
// sent at asked.
func (r *replicas) cover(asked time.Time, slots []delay.Slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	certain := asked.Sub(r.beaten) < delay.StaleAfter // who could not beat itself cannot tell who is gone
	r.beaten = asked
	var errs []error
	for _, s := range slots {
		sub := r.covered[s.Number]
		switch {
		case s.Number == r.slot || s.Number < 0:
		case s.Alive() && sub != nil && r.revived[s.Number]:
			errs = append(errs, sub.Drain()) // as in uncover
			delete(r.covered, s.Number)
			delete(r.revived, s.Number)
		case s.Alive() && sub != nil:
			r.revived[s.Number] = true
		case !s.Alive() && sub == nil && s.Age < coverFor && (s.Leaving || certain):
			sub, err := r.link.QueueSubscribe(r.subjects.acks(s.Number), ackQueue, r.acks.handle)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			r.covered[s.Number] = sub
			r.log.Info().Int("slot", s.Number).Msg("acks of a replica that is gone are taken")
		case !s.Alive():
			delete(r.revived, s.Number)
		}
	}
	return errors.Join(errs...)
}

// others reports whether other replicas live, and whether one of them takes the acks of this slot.
func (r *replicas) others() (bool, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	alive, covered := false, false
	for _, s := range r.slots {
		if s.Number == r.slot || !s.Alive() {
			continue
		}
		alive = true
		covered = covered || slices.Contains(s.Covers, r.slot)
	}
	return alive, covered
}

// otherOwners gives the owners of the other replicas that live.
func (r *replicas) otherOwners() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var owners []string
	for _, s := range r.slots {
		if s.Number != r.slot && s.Alive() {
			owners = append(owners, owner{s.Number, s.Process}.String())
		}
	}
	return owners
}

// retire gives up watching buckets, and tells the others: jobs that become due from now on are to be delivered by them.
func (r *replicas) retire(ctx context.Context) {
	// A beat tells who is there by now.
	if err := errors.Join(r.beat(ctx), r.queue.Retire(ctx)); err != nil {
		r.metrics.trouble("retire", err) // the others find it by themselves, a little later
	}
	for _, other := range r.otherOwners() {
		r.jot(r.subjects.note(other, wordLook), func([]byte) []byte { return nil })
	}
}

// leave tells the others that this replica goes, and waits until one of them takes its acks, if there is one. It reports
// whether one does.
func (r *replicas) leave(ctx context.Context) bool {
	r.mu.Lock()
	r.leaving = true
	r.handOver()
	r.mu.Unlock()
	check := time.NewTicker(delay.BeatEvery / 10)
	defer check.Stop()
	for {
		if err := r.beat(ctx); err != nil {
			return false
		}
		alive, covered := r.others()
		if covered || !alive {
			return covered
		}
		select {
		case <-check.C:
		case <-ctx.Done():
			return false
		}
	}
}

// handOver puts the subscription to the own acks into the queue group of those who will take them, so that each ack is
// handled once. Nothing is delivered any more, so no answer of the server need come to a plain one. The caller holds mu.
func (r *replicas) handOver() {
	if r.own == nil {
		return
	}
	r.copies = make(map[string]int)
	sub, err := r.link.QueueSubscribe(r.subjects.acks(r.slot), ackQueue, r.handleOnce)
	if err != nil {
		return // the connection is gone, and with it the acks
	}
	// Who takes an ack of this replica tells it that the flight is over: only this replica must hear that.
	told := r.subjects.note(owner{r.slot, r.process}.String(), wordEnded)
	if r.told, err = r.link.Subscribe(told, r.acks.handle); err != nil {
		return // as above
	}
	// The server has the new subscriptions before the old one ends, or an ack could meet none.
	_ = r.link.flush() // as above
	plain := r.own
	r.own = sub
	_ = plain.Drain() // as above; what has arrived is still handled
}

// handleOnce passes an ack on, but for one whose copy was passed on over the other subscription.
func (r *replicas) handleOnce(msg *nats.Msg) {
	if r.first(msg) {
		r.acks.handle(msg)
	}
}

// first reports whether an ack is not the second copy of one.
func (r *replicas) first(msg *nats.Msg) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copies == nil {
		return true
	}
	step := 1
	if msg.Sub.Queue != "" {
		step = -1
	}
	key := msg.Subject + " " + msg.Reply + " " + string(msg.Data)
	other := r.copies[key] * step
	r.copies[key] += step
	return other >= 0
}

// unsubscribe stops taking acks; those that have arrived are still handled.
func (r *replicas) unsubscribe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sub := range r.covered {
		_ = sub.Drain() // fails only where the connection is gone
	}
	for _, sub := range []*nats.Subscription{r.own, r.told} {
		if sub != nil {
			_ = sub.Drain() // as above
		}
	}
}

// reconcile asks Redis about flights that are out for long: whoever settled one may have had no way to tell.
func (r *replicas) reconcile(ctx context.Context) {
	for part := range slices.Chunk(r.acks.dispatcher.doubtful(), round) {
		leases := make([]delay.Lease, len(part))
		for i, f := range part {
			leases[i] = f.lease
		}
		flying, err := r.queue.Flying(ctx, leases)
		if err != nil {
			return
		}
		var over []flightKey
		for i, f := range part {
			if !flying[i] {
				over = append(over, f.key)
			}
		}
		r.acks.dispatcher.end(over...)
	}
}

// subscriptions is how many subscriptions to acks there are.
func (r *replicas) subscriptions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.covered) + 1
}
