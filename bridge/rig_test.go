package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// patience is how long a test waits for what must happen: far longer than it takes, as the machine may be busy.
const patience = 15 * time.Second

// rig is a bridge as its users meet it: a real NATS, a real Redis, a prefix of its own, and clients.
type rig struct {
	setup
	nc      *nats.Conn
	main    *replica
	started []*replica // all that were started, for their logs
	history *history
}

// setup is what a rig is made of. Options change it before the start.
type setup struct {
	bridge.Options
	buckets      int
	waitReplicas int
	natsOptions  []testenv.NATSOption
	nats         *testenv.NATSServer
	redis        *testenv.RedisServer
	// natsURL and redisURL are the bridge's where they are not the servers' own.
	natsURL, redisURL string
	creds             string
	// natsFiles and redisFiles are what the bridge connects with beside the URLs.
	natsFiles  bridge.LinkOptions
	redisFiles delay.RedisOptions
	client     []nats.Option
	// reconnectPause is the bridge's; nil: its own.
	reconnectPause func(tries int) time.Duration
	// idle leaves the start to the test.
	idle bool
}

// newRig starts a bridge and waits until it serves. At the end of the test it stops it and checks the history of all
// workers.
func newRig(t *testing.T, options ...func(*setup)) *rig {
	t.Helper()
	s := setup{buckets: 8, Options: bridge.Options{
		Prefix: testenv.Prefix(t), Version: "v1.2.3", Tick: time.Second, MaxDelay: 87600 * time.Hour, MaxBody: 1_000_000,
		DefaultTTR: time.Minute, MaxInflight: 1000, ShutdownTimeout: time.Second, HTTPAddr: "127.0.0.1:0", Now: time.Now,
	}}
	for _, option := range options {
		option(&s)
	}
	if s.redis == nil {
		s.redis = testenv.SharedRedis(t)
	}
	if s.nats == nil {
		s.nats = testenv.NATS(t, s.natsOptions...)
	}
	if s.natsURL == "" {
		s.natsURL = s.nats.URL()
	}
	if s.redisURL == "" {
		s.redisURL = s.redis.URL()
	}
	r := &rig{setup: s, history: newHistory()}
	r.nc = r.connect(s.client...)
	t.Cleanup(func() {
		r.history.check(t)
		for i := 0; i < len(r.started) && t.Failed(); i++ {
			t.Logf("log of bridge %d:\n%s", i, r.started[i].log)
		}
	})
	if !s.idle {
		r.main = r.start(t)
	}
	return r
}

// connect gives one more client. It outlives a restart of the server.
func (r *rig) connect(options ...nats.Option) *nats.Conn {
	return r.nats.Connect(append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}, options...)...)
}

// replica is one running bridge.
type replica struct {
	link   *bridge.Link
	log    *logLines
	cancel context.CancelFunc
	done   chan struct{}
	err    error // what Run returned; set once done is closed
}

// start runs one more bridge on the rig's store and waits until it serves.
func (r *rig) start(t *testing.T, options ...func(*setup)) *replica {
	t.Helper()
	b := r.run(t, options...)
	testenv.Eventually(t, patience, func() bool { return b.over() || b.log.has("bridge serves") }, "the bridge serves")
	if b.over() {
		t.Fatalf("the bridge ends at its start: %v", b.err)
	}
	if err := b.link.FlushTimeout(patience); err != nil { // the server has its subscriptions
		t.Fatal(err)
	}
	return b
}

// run starts a bridge as main does and does not wait.
func (r *rig) run(t *testing.T, options ...func(*setup)) *replica {
	t.Helper()
	s := r.setup
	for _, option := range options {
		option(&s)
	}
	b := &replica{log: &logLines{}, done: make(chan struct{})}
	log := zerolog.New(b.log).Level(zerolog.DebugLevel).With().Timestamp().Logger()
	s.redisFiles.URL, s.redisFiles.Log = s.redisURL, log
	client, err := delay.Dial(s.redisFiles)
	if err != nil {
		t.Fatal(err)
	}
	s.natsFiles.URL, s.natsFiles.Log, s.natsFiles.Now = s.natsURL, log, s.Now
	s.natsFiles.Pause = s.reconnectPause
	if s.creds != "" {
		s.natsFiles.Creds = s.creds
	}
	if b.link, err = bridge.Connect(s.natsFiles); err != nil {
		t.Fatal(err)
	}
	store := delay.NewStore(client, delay.StoreOptions{
		Prefix: s.Prefix, Buckets: s.buckets, MaxDelay: s.MaxDelay, WaitReplicas: s.waitReplicas,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	b.cancel = cancel
	go func() {
		defer close(b.done)
		b.err = bridge.New(b.link, store, s.Options, log).Run(ctx)
	}()
	r.started = append(r.started, b)
	t.Cleanup(func() { _ = b.stop(t) }) // tests that care for its error have looked
	return b
}

// over reports whether Run has returned.
func (b *replica) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// stop ends the bridge in order and gives what Run returned.
func (b *replica) stop(t *testing.T) error {
	t.Helper()
	b.cancel()
	return b.wait(t)
}

// wait waits for the end of Run.
func (b *replica) wait(t *testing.T) error {
	t.Helper()
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	select {
	case <-b.done:
		return b.err
	case <-timer.C:
		t.Fatal("the bridge does not end")
		return nil
	}
}
