package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/alarm"
)

const (
	// openBatches is how many batches may wait for their barriers.
	openBatches = 64
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
	trace    *tracing
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
	turns   queues
	flights map[flightKey]*flight
	stopped bool
	// leasing is how many calls are on their way that may lease jobs; over are the deliveries that were ended meanwhile and
	// are not known here: perhaps of one of these.
	leasing int
	over    map[flightKey]struct{}
	paused  map[string]bool
	// pauseReadings counts the readings of the paused topics, pauseTaken is the newest whose result was taken.
	pauseReadings, pauseTaken uint64
	// offering are the topics that offer room to the tickers.
	offering []*topic
	// waiting is how many pops wait here.
	waiting int
	// remote holds for each topic the replicas where pops wait for it, and until when that holds.
	remote map[string]map[string]time.Time
	// awaiting are the flights of no TTR whose stream has not said yet whether it has them; handed and refused are those
	// of which a stream said it late.
	awaiting        map[flightKey]*flight
	handed, refused []*flight
	// barriers are the batches whose barrier is out, by number.
	barriers    map[uint64]*batch
	lastBarrier uint64

	// wake and landed have room for one note: a topic has its turn; no flight is left.
	wake, landed chan struct{}
	// verdict has room for one note that handed or refused have something.
	verdict chan struct{}
	// captures knows the streams over ready subjects.
	captures *captures
	// lookers has an entry for each question to Redis on behalf of pops.
	lookers chan struct{}
	looks   sync.WaitGroup
	// calls is what questions to Redis for pops run under; set before run.
	calls  context.Context //nolint:containedctx // they begin in timers and handlers, which have none
	died   func(delay.DeadJob)
	expiry *expiry
	// notify tells another replica of a bucket with ready jobs of a topic; others gives those that live.
	notify func(owner string, bucket int, topic string)
	others func() []string
	// awaits tells the other replicas of topics that pops wait for here.
	awaits func(topics []string)
	// offers are those of which nobody knows yet what came of them, and the deliveries in ahead: run waits for them before it
	// closes batches.
	offers  sync.WaitGroup
	ahead   *ahead
	batches chan *batch
	// held are deliveries that are certain and will be confirmed a little later, or at once when stopping is closed.
	held     chan []*flight
	stopping chan struct{}
}

func newDispatcher(b *Bridge) *dispatcher {
	d := &dispatcher{
		queue: b.queue, link: b.link, subjects: b.subjects, metrics: b.metrics, events: b.events, trace: b.trace, log: b.log, now: b.now,
		buckets: b.queue.Buckets(), window: b.options.MaxInflight, probes: rate.NewLimiter(probesPerSecond, probesPerSecond/10),
		paused: make(map[string]bool), remote: make(map[string]map[string]time.Time), lookers: make(chan struct{}, maxLookers),
		died:   sink{b}.Died,
		topics: make(map[string]*topic), flights: make(map[flightKey]*flight), over: make(map[flightKey]struct{}), barriers: make(map[uint64]*batch),
		wake: make(chan struct{}, 1), landed: make(chan struct{}, 1), batches: make(chan *batch, openBatches),
		held: make(chan []*flight, heldBatches), stopping: make(chan struct{}),
	}
	d.ahead = &ahead{now: b.now, depart: d.depart, alarm: alarm.New()}
	d.captures = &captures{
		link: b.link, subjects: b.subjects, metrics: b.metrics, log: b.log, now: b.now, changed: d.reconsider,
	}
	d.awaiting, d.verdict = make(map[flightKey]*flight), make(chan struct{}, 1)
	d.expiry = &expiry{
		queue: b.queue, metrics: b.metrics, died: d.died, expects: d.expects, topics: make(map[string]bool),
		wake: make(chan struct{}, 1),
	}
	return d
}

// ready notes that a topic has ready jobs in a bucket, and tells the replicas where pops wait for it; where there is no
// room for it here, or nothing is delivered any more, all replicas.
func (d *dispatcher) ready(bucket int, name string) {
	d.mu.Lock()
	t := d.readyHere(bucket, name)
	for owner, until := range d.remote[name] {
		if d.now().Before(until) {
			d.notify(owner, bucket, name)
		}
	}
	spread := (d.stopped || t.out >= d.window) && t.spread(bucket, d.now())
	d.mu.Unlock()
	if spread {
		for _, owner := range d.others() {
			d.notify(owner, bucket, name)
		}
	}
}

// heardOf notes ready jobs that another replica tells of. They are not told on, or replicas would do so for ever.
func (d *dispatcher) heardOf(bucket int, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readyHere(bucket, name)
}

// readyHere notes ready jobs for this replica. The caller holds mu.
func (d *dispatcher) readyHere(bucket int, name string) *topic {
	t := d.topic(name)
	t.hint(bucket)
	d.enqueue(t)
	return t
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

// run hands out until ctx ends, then closes batches. No offer is made any more by then: stop comes before.
func (d *dispatcher) run(ctx context.Context) {
	defer close(d.batches)
	defer d.ahead.close()
	defer d.offers.Wait()
	for ctx.Err() == nil {
		d.mu.Lock()
		r, n := d.plan()
		owner := d.owner
		if n > 0 {
			d.leasing++
		}
		d.mu.Unlock()
		switch {
		case n == 0:
			select {
			case <-d.wake:
			case <-ctx.Done():
			}
		case !d.link.IsConnected():
			d.refund(r)
			holdBack(ctx)
			d.nudge()
		default:
			d.deliver(ctx, r, owner)
		}
	}
}

// deliver reserves what a round wants, publishes what came of it, and gives that to the confirmer.
func (d *dispatcher) deliver(ctx context.Context, r request, owner string) {
	leased := d.now()
	results, err := d.queue.Reserve(ctx, owner, r.wants)
	for i := range results {
		for _, job := range results[i].Died {
			d.died(job)
		}
	}
	batch := d.open(r, results, leased, owner) //nolint:contextcheck // looks for pops are no part of the round: see calls
	d.metrics.scripts.batch("reserve", len(batch.flights))
	d.dispatch(batch)
	if err != nil && ctx.Err() == nil {
		d.metrics.trouble("reserve", err)
		holdBack(ctx)
	}
}

// dispatch publishes a batch, if there is anything, and gives it to the confirmer.
func (d *dispatcher) dispatch(b *batch) {
	if len(b.flights) > 0 {
		d.publish(b)
		d.batches <- b
	}
}

// stop ends the handing out of new deliveries; run is ended by its context.
func (d *dispatcher) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		close(d.stopping)
	}
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
	d.landing()
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

// holdBack waits for a setback to pass, or for the end of ctx.
func holdBack(ctx context.Context) {
	timer := time.NewTimer(setback)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
