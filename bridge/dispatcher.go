package bridge

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// openBatches is how many batches may wait for their barriers.
	openBatches = 8
	// setback is the pause after Redis or NATS refused a round.
	setback = 100 * time.Millisecond
	// probesPerSecond bounds the deliveries that are tried on topics without listeners, over all replicas.
	probesPerSecond = 1000
)

// dispatcher hands out ready jobs: it takes turns over the topics, keeps to their windows, and leaves it to the
// confirmer (barrier.go) whether a delivery is certain.
type dispatcher struct {
	queue    *delay.Queue
	link     *Link
	subjects subjects
	metrics  *metrics
	events   *events
	log      zerolog.Logger
	now      func() time.Time
	storeID  string
	buckets  int
	window   int
	probes   *rate.Limiter

	// mu guards all below but the channels.
	mu      sync.Mutex
	owner   string // of this replica; changes when it gets another slot
	topics  map[string]*topic
	turns   []*topic
	flights map[flightKey]*flight
	stopped bool
	paused  map[string]bool
	// waiting is how many pops wait here.
	waiting int
	// remote holds for each topic the replicas where pops wait for it, and until when that holds.
	remote map[string]map[string]time.Time
	// barriers are the batches whose barrier is out, by number.
	barriers    map[uint64]*batch
	lastBarrier uint64

	// wake and landed have room for one note: a topic has its turn; no flight is left.
	wake, landed chan struct{}
	// lookers has an entry for each question to Redis on behalf of pops.
	lookers chan struct{}
	looks   sync.WaitGroup
	// calls is what questions to Redis for pops run under; set before run.
	calls context.Context //nolint:containedctx // they begin in timers and handlers, which have none
	died  func(delay.DeadJob)
	// notify tells another replica of a bucket with ready jobs of a topic that its pops wait for.
	notify  func(owner string, bucket int, topic string)
	batches chan *batch
}

func newDispatcher(b *Bridge) *dispatcher {
	return &dispatcher{
		queue: b.queue, link: b.link, subjects: b.subjects, metrics: b.metrics, events: b.events, log: b.log, now: b.now,
		buckets: b.queue.Buckets(), window: b.options.MaxInflight, probes: rate.NewLimiter(probesPerSecond, probesPerSecond/10),
		paused: make(map[string]bool), remote: make(map[string]map[string]time.Time), lookers: make(chan struct{}, maxLookers),
		died:   sink{b}.Died,
		topics: make(map[string]*topic), flights: make(map[flightKey]*flight), barriers: make(map[uint64]*batch),
		wake: make(chan struct{}, 1), landed: make(chan struct{}, 1), batches: make(chan *batch, openBatches),
	}
}

// ready notes that a topic has ready jobs in a bucket.
func (d *dispatcher) ready(bucket int, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topic(name)
	t.hint(bucket)
	d.enqueue(t)
	for owner, until := range d.remote[name] {
		if d.now().Before(until) {
			d.notify(owner, bucket, name)
		}
	}
}

// topic gives what is known of a topic, from now on. The caller holds mu.
func (d *dispatcher) topic(name string) *topic {
	t := d.topics[name]
	if t == nil {
		t = &topic{name: name, hints: make([]uint64, d.buckets), expiring: true}
		d.topics[name] = t
	}
	t.used = d.now()
	return t
}

func (d *dispatcher) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run hands out until ctx ends, then closes batches.
func (d *dispatcher) run(ctx context.Context) {
	defer close(d.batches)
	for ctx.Err() == nil {
		d.mu.Lock()
		r, n := d.plan()
		owner := d.owner
		d.mu.Unlock()
		if n == 0 {
			select {
			case <-d.wake:
			case <-ctx.Done():
			}
			continue
		}
		if !d.link.IsConnected() {
			d.refund(r)
			pause(ctx, setback)
			d.nudge()
			continue
		}
		leased := d.now()
		results, err := d.queue.Reserve(ctx, owner, r.wants)
		for i := range results {
			for _, job := range results[i].Died {
				d.died(job)
			}
		}
		batch := d.open(r, results, leased, owner)
		if len(batch.flights) > 0 {
			d.publish(batch)
			d.batches <- batch
		}
		if err != nil && ctx.Err() == nil {
			d.metrics.trouble("reserve", err)
			pause(ctx, setback)
		}
	}
}

// stop ends the handing out of new deliveries; run is ended by its context.
func (d *dispatcher) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	for _, t := range d.topics {
		if t.probe != nil {
			t.probe.Stop()
		}
	}
	if len(d.flights) == 0 {
		d.noteLanded()
	}
}

// name is the owner under which this replica delivers now.
func (d *dispatcher) name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner
}

func (d *dispatcher) rename(owner string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner = owner
}

// shareProbes divides the probes among so many replicas.
func (d *dispatcher) shareProbes(replicas int) {
	d.probes.SetLimit(rate.Limit(probesPerSecond) / rate.Limit(replicas))
}

// wait waits until no flight is left, or ctx is over.
func (d *dispatcher) wait(ctx context.Context) {
	for {
		d.mu.Lock()
		left := len(d.flights)
		d.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-d.landed:
		case <-ctx.Done():
			return
		}
	}
}

// refund takes back a round that was not asked for.
func (d *dispatcher) refund(r request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, parts := range r.parts {
		for _, p := range parts {
			d.giveUp(p)
		}
	}
}

// giveUp takes back a part that nothing came of: a probe is still due. The caller holds mu.
func (d *dispatcher) giveUp(p part) {
	p.topic.out -= p.n
	p.topic.popping -= p.pops
	if p.topic.silent && p.n > 0 {
		p.topic.due = true
	}
	d.enqueue(p.topic)
}

// batch is what was published together and shares one barrier.
type batch struct {
	deliveries []*delay.Delivery
	flights    []*flight // beside deliveries
	owner      string
	leased     time.Time
	clock      time.Time // Redis's, at the lease
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
	for bucket, parts := range r.parts {
		for i, p := range parts {
			if results[bucket].Topics == nil {
				d.giveUp(p)
				continue
			}
			got := &results[bucket].Topics[i]
			b.clock = got.Clock
			if got.Left == 0 && p.topic.hints[bucket] == p.hint {
				p.topic.hints[bucket] = 0
			}
			for _, err := range got.Unreadable {
				d.log.Error().Err(err).Msg("job cannot be read")
			}
			d.board(b, p, got.Deliveries)
		}
	}
	return b
}

// board divides what came of a part between its waiters and the subscribers. The caller holds mu.
func (d *dispatcher) board(b *batch, p part, deliveries []delay.Delivery) {
	t := p.topic
	t.popping -= p.pops
	subscribers := 0
	for i := range deliveries {
		v := &deliveries[i]
		f := d.fly(t, v, b.leased)
		if p.pops > 0 {
			f.pop = d.nextWaiter(t, v.TTR == 0)
			p.pops--
		}
		if f.pop == "" {
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
	for i, v := range b.deliveries {
		elapsed := d.now().Sub(b.leased)
		if elapsed > delay.LeaseTime/2 {
			b.err = errors.New("the lease is too old")
			break
		}
		b.flights[i].late = b.clock.Add(elapsed).Sub(v.DueAt)
		ack := d.subjects.ack(b.owner, v.ID, v.Push, v.Token)
		subject := b.flights[i].pop
		if subject == "" {
			subject = d.subjects.ready(v.Topic)
		}
		err := d.link.PublishMsg(readyMsg(v, subject, ack, d.msgID(v)))
		if concernsOne(err) {
			d.undeliverable(b.flights[i], v, err)
		} else if err != nil {
			b.err = err
			break
		}
	}
	d.mu.Lock()
	d.lastBarrier++
	b.number = d.lastBarrier
	d.barriers[b.number] = b
	d.mu.Unlock()
	if b.err == nil {
		b.err = d.link.Publish(d.subjects.barrier(b.owner, b.number), nil)
	}
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
	d.answered(f.key, true)
	ack := delay.Ack{ID: v.ID, Push: v.Push, Token: v.Token, Reason: "too_large"}
	d.queue.Settle(delay.VerbBury, ack, false, func(r delay.Settled) {
		if r.Err != nil {
			d.end(f.key)
		}
	})
}

// pause waits for a while or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
