package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/delay"
)

// Options say how a bridge works; every duration and number must be set.
type Options struct {
	// Prefix begins all subjects.
	Prefix  string
	Version string
	// Tick is the longest a bucket's ticker sleeps.
	Tick time.Duration
	// MaxDelay, MaxBody, DefaultTTR and MaxAttempts bound and complete what is pushed.
	MaxDelay    time.Duration
	MaxBody     int
	DefaultTTR  time.Duration
	MaxAttempts int
	// PushStream is the stream that pushes come through, and only through it; empty: core NATS.
	PushStream string
	// MaxInflight is how many unfinished deliveries a topic may have out of this replica.
	MaxInflight int
	// DeadRetention is how long dead jobs are kept, DeadMax how many; 0: no limit.
	DeadRetention time.Duration
	DeadMax       int
	// ShutdownTimeout bounds the wait for acks that are out; the whole end takes 2 s more at most.
	ShutdownTimeout time.Duration
	// HTTPAddr is where HTTP is served; empty: nowhere. HTTPToken guards all but health; empty: no token.
	HTTPAddr, HTTPToken string
	// Profiles serves /debug/pprof/ too, behind the token.
	Profiles bool
	// Now is the local clock. Only its differences count: due times and deadlines are Redis's.
	Now func() time.Time
	// Tracer makes spans of the way of jobs; nil: nobody wants them.
	Tracer Tracer
}

const (
	maxBatch     = 1000
	flushTimeout = time.Second
	// CommitTimeout is how long the end may take beyond the wait for acks.
	CommitTimeout = 2 * time.Second
)

// Bridge is one replica: it joins a store and a NATS system.
type Bridge struct {
	options  Options
	link     *Link
	queue    *delay.Queue
	subjects subjects
	log      zerolog.Logger
	now      func() time.Time

	metrics    *metrics
	health     *health
	concerns   *concerns
	events     *events
	trace      *tracing
	answers    *answers
	dispatcher *dispatcher
	acks       *acks
	intake     *intake
	admin      *admin
	replicas   *replicas
	service    micro.Service
	// pulls takes pushes from the stream; nil: they come as requests.
	pulls *stream
	// standing is how many subscriptions there are beside those of the service and the acks: the inbox of requests.
	standing int
	http     *httpServer
	// found bounds how many findings are logged.
	found *rate.Limiter
}

// New makes a bridge. It starts nothing; link and store are closed by Run.
func New(link *Link, store *delay.Store, o Options, log zerolog.Logger) *Bridge {
	b := &Bridge{options: o, link: link, subjects: subjects{o.Prefix}, log: log, now: o.Now}
	b.found = rate.NewLimiter(rate.Every(10*time.Second), 10)
	b.metrics = newMetrics(o.Version, o.Now, log)
	b.queue = delay.NewQueue(store, sink{b}, delay.QueueOptions{
		Tick: o.Tick, DeadRetention: o.DeadRetention, DeadMax: o.DeadMax, Now: o.Now, Meter: b.metrics.scripts,
	})
	b.health = &health{queue: b.queue, link: link, now: o.Now, log: log}
	b.concerns = newConcerns(b.queue, o.Now, log)
	b.trace = newTracing(o)
	b.events = &events{link: link, subjects: b.subjects, now: o.Now}
	b.answers = &answers{
		link: link, subjects: b.subjects, metrics: b.metrics, log: log, loud: rate.NewLimiter(rate.Every(time.Second), 1),
	}
	b.dispatcher = newDispatcher(b)
	bounds := limits{
		MaxDelay: o.MaxDelay, MaxBody: o.MaxBody, MaxBatch: maxBatch, DefaultTTR: o.DefaultTTR, MaxAttempts: o.MaxAttempts,
	}
	b.acks = &acks{
		queue: b.queue, subjects: b.subjects, limits: bounds, answers: b.answers, dispatcher: b.dispatcher,
		metrics: b.metrics, events: b.events, trace: b.trace,
	}
	b.intake = &intake{
		queue: b.queue, link: link, subjects: b.subjects, limits: bounds, answers: b.answers, metrics: b.metrics,
		dispatcher: b.dispatcher, trace: b.trace,
	}
	if o.PushStream != "" {
		b.pulls = newStream(b)
		b.health.pushes = b.pulls.ready
	}
	b.replicas = newReplicas(b)
	b.dispatcher.notify, b.dispatcher.awaits = b.replicas.readyElsewhere, b.replicas.announce
	b.dispatcher.others = b.replicas.otherOwners
	b.acks.peers, b.acks.taken = newPeers(b), b.replicas.uncover
	b.admin = newAdmin(b, bounds)
	b.metrics.watch(b)
	b.http = &httpServer{
		addr: o.HTTPAddr, token: o.HTTPToken, profiles: o.Profiles, health: b.health, concerns: b.concerns,
		metrics: b.metrics, web: newWeb(b), dashboard: newDashboard(b), log: log,
	}
	return b
}

func newReplicas(b *Bridge) *replicas {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &replicas{
		queue: b.queue, link: b.link, subjects: b.subjects, acks: b.acks, metrics: b.metrics, log: b.log,
		process: processName(), about: fmt.Sprintf("%s %s %s", host, b.options.Version, formatTime(b.now())),
		covered: make(map[int]*nats.Subscription), revived: make(map[int]bool), noted: make(map[string][]byte),
		wake: make(chan struct{}, 1), now: b.now,
	}
}

// processName is a random name that tells this process from all others, also those that had its slot before.
func processName() string { return uuid.NewString()[:8] }

// Run works until ctx is over, then leaves in order; it returns an error where it cannot work at all.
// Redis or NATS being away is no such error: it waits for them.
func (b *Bridge) Run(ctx context.Context) error {
	defer b.close(context.WithoutCancel(ctx))
	if err := b.http.start(); err != nil { //nolint:contextcheck // what requests begin outlives them
		b.closeStore()
		return err
	}
	// What runs beside the work outlives ctx: the end in order needs it.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer b.closeStore() // ends calls that wait for an answer of Redis
	defer stopAround()
	background.Go(func() { b.health.run(around) })

	if err := b.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop before it had begun
		}
		return err
	}
	background.Go(func() { b.replicas.run(around) })
	background.Go(func() { b.replicas.tell(around) })
	background.Go(func() { b.watchStreams(around) })
	background.Go(func() { b.concerns.run(around) })
	background.Go(func() { b.acks.peers.run(around) })
	background.Go(func() { b.replicas.watchPauses(around) })
	background.Go(func() { b.dispatcher.expiry.run(around) })
	background.Go(func() { b.dispatcher.captures.run(around) })
	background.Go(func() { b.dispatcher.heed(around) })
	b.dispatcher.calls, b.admin.ctx = around, around
	dispatching, stopDispatching := context.WithCancel(around)
	var dispatch sync.WaitGroup
	dispatch.Go(func() { b.dispatcher.run(dispatching) })
	dispatch.Go(b.dispatcher.ahead.run)
	dispatch.Go(func() { b.dispatcher.confirmer(around) })
	dispatch.Go(func() { b.dispatcher.confirmHeld(around) })
	b.queue.Start(around)
	b.standing = b.link.NumSubscriptions() - b.replicas.subscriptions()
	service, err := b.serve() //nolint:contextcheck // requests come in handlers, which have no context
	if err == nil {
		b.service = service
		// The server has the subscriptions before anybody is told that the bridge serves; it ends early where ctx does.
		_ = b.insist(ctx, "subscribe", b.link.flush)
		if b.pulls != nil {
			b.pulls.start(around)
		}
		b.health.started.Store(true)
		b.log.Info().Str("prefix", b.options.Prefix).Str("store", b.queue.ID()).Msg("bridge serves")
		<-ctx.Done()
	}
	b.leave(context.WithoutCancel(ctx), func() {
		stopDispatching()
		dispatch.Wait()
	}, func() {
		stopAround()
		b.closeStore()
	})
	return err
}

// join waits for Redis and NATS, checks that the bridge fits to what is there, and takes a slot.
func (b *Bridge) join(ctx context.Context) error {
	err := b.insist(ctx, "open store", func() error {
		err := b.queue.Open(ctx)
		if errors.Is(err, delay.ErrLayout) {
			return fatal{err}
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.insist(ctx, "check redis", func() error {
		err := b.concerns.look(ctx)
		if errors.Is(err, delay.ErrOldServer) {
			return fatal{err}
		}
		return err
	}); err != nil {
		return err
	}
	b.dispatcher.storeID = b.queue.ID()[:8]
	if err := b.insist(ctx, "reach nats", b.reach); err != nil {
		return err
	}
	if err := b.checkOthers(); err != nil {
		return err
	}
	if err := b.checkStreams(ctx); err != nil {
		return err
	}
	if b.pulls != nil {
		err := b.insist(ctx, "open push stream", func() error { return b.pulls.open(ctx) })
		if err != nil {
			return err
		}
	}
	// A topic that is paused must be known before the first delivery.
	if err := b.insist(ctx, "read paused topics", func() error { return b.replicas.readPauses(ctx) }); err != nil {
		return err
	}
	return b.insist(ctx, "take a slot", func() error { return b.replicas.join(ctx) })
}

var errAway = errors.New("not connected")

func (b *Bridge) reach() error {
	if !b.link.IsConnected() {
		return errAway
	}
	return nil
}

// fatal marks an error that trying again cannot mend.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// insist tries until it succeeds, the error is fatal, or ctx is over.
func (b *Bridge) insist(ctx context.Context, duty string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) {
			return f.error
		}
		b.metrics.trouble(duty, err)
		holdBack(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// leave ends the work in this order: take no requests; deliver no more and wait until it is certain what was
// delivered; let another replica take the acks, or wait for them; commit what was taken; go.
func (b *Bridge) leave(ctx context.Context, stopDispatching, cutOff func()) {
	// Acks are waited for until the first moment, what was taken is committed until the second; then calls are cut off,
	// since Redis may be what does not answer.
	last, stop := context.WithTimeout(ctx, b.options.ShutdownTimeout+CommitTimeout)
	defer stop()
	defer context.AfterFunc(last, cutOff)()
	ctx, cancel := context.WithTimeout(last, b.options.ShutdownTimeout)
	defer cancel()
	b.health.started.Store(false)
	b.http.dashboard.stop()
	b.log.Info().Msg("bridge leaves")
	if b.pulls != nil {
		b.pulls.stop(ctx)
	}
	// Replies to what was taken are sent until the end; draining only ends the flow of new requests.
	if b.service != nil {
		_ = b.service.Stop() // fails only where the connection is gone
		b.drained(last, func() int { return b.standing + b.replicas.subscriptions() })
	}
	b.admin.wait()
	b.dispatcher.stop()
	b.replicas.retire(ctx)
	b.dispatcher.sendAway()
	stopDispatching()
	b.dispatcher.looks.Wait()
	if !b.replicas.leave(ctx) {
		b.dispatcher.wait(ctx)
	}
	b.replicas.unsubscribe()
	b.drained(last, func() int { return b.standing })
	b.queue.Stop(last)
	_ = b.link.flush() // fails only where the connection is gone
	b.log.Info().Msg("bridge has left")
}

// drained waits until no more than so many subscriptions are left: the others have handed over all they had.
func (b *Bridge) drained(ctx context.Context, left func() int) {
	check := time.NewTicker(5 * time.Millisecond)
	defer check.Stop()
	for b.link.IsConnected() && b.link.NumSubscriptions() > left() {
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Bridge) close(ctx context.Context) {
	b.http.stop(ctx)
	b.link.Close()
}

func (b *Bridge) closeStore() {
	if err := b.queue.Close(); err != nil {
		b.log.Debug().Err(err).Msg("redis client closes with an error")
	}
}

// watchStreams looks every minute for a stream that was made over the bridge's subjects.
func (b *Bridge) watchStreams(ctx context.Context) {
	each(ctx, time.Minute, func() {
		if err := b.checkStreams(ctx); err != nil {
			b.log.Error().Err(err).Msg("requests are answered twice")
			b.metrics.trouble("look for streams", err)
		}
	})
}

// each calls f again and again, the first time after a pause, until ctx is over.
func each(ctx context.Context, pause time.Duration, f func()) {
	every := time.NewTicker(pause)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			f()
		}
	}
}
