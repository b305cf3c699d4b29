package bench_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/dqbridge/dqbridge/internal/bench"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against is a run against a bridge with these faults. Purges are counted in the channel.
func against(t *testing.T, faults testenv.Faults) (bench.Options, chan string) {
	t.Helper()
	server, prefix := testenv.NATS(t), testenv.Prefix(t)
	nc := server.Connect()
	testenv.NewFakeBridge(t, nc, prefix, faults)
	purges := make(chan string, 100)
	if _, err := nc.Subscribe(prefix+".admin.purge", func(msg *nats.Msg) {
		purges <- string(msg.Data)
		msg.Respond([]byte(`{"code":200,"message":"","data":{"purged":1}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(prefix+".admin.topics", func(msg *nats.Msg) {
		msg.Respond([]byte(`{"code":200,"message":"","data":{"topics":[],"cursor":""}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return bench.Options{
		Prefix: prefix, Topic: "bench-1", Topics: 2, Jobs: 50, Size: 20, InFlight: 8, Batch: 1, Outstanding: 20,
		MinDelay: 100 * time.Millisecond, MaxDelay: 200 * time.Millisecond, Workers: 2, TTR: time.Minute, Patience: 3 * time.Second,
		Now: time.Now, Connect: func() (*nats.Conn, error) { return nats.Connect(server.URL()) },
	}, purges
}

func works() map[string]func(context.Context, bench.Options) (bench.Result, error) {
	return map[string]func(context.Context, bench.Options) (bench.Result, error){
		"drain": func(ctx context.Context, o bench.Options) (bench.Result, error) {
			o.MinDelay, o.MaxDelay = 0, 5*time.Second // time for all pushes, on a busy machine as well
			return bench.Drain(ctx, o)
		},
		"steady": bench.Steady, "lateness": bench.Lateness,
	}
}

// A workload says what a bridge does that it must not.
func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, test := range map[string]struct {
		faults             testenv.Faults
		lost, early, twice int
	}{
		"none":  {},
		"early": {faults: testenv.Faults{Early: 50 * time.Millisecond}, early: 50},
		"twice": {faults: testenv.Faults{Twice: true}, twice: 50},
	} {
		for name, work := range works() {
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				o, purges := against(t, test.faults)
				r, err := work(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Workload != name || r.Jobs != 50 || r.Delivered != 50 || r.PushedPerSecond <= 0 ||
					(fault == "none") && r.PerSecond <= 0 { // a drain whose jobs are all early is over before it begins
					t.Errorf("result %+v", r)
				}
				// On a busy machine a timer of the fake bridge may be late enough to hide what is early.
				if r.Lost != test.lost || r.Twice != test.twice || r.Early > test.early || (r.Early == 0) != (test.early == 0) {
					t.Errorf("%d lost, %d early, %d twice", r.Lost, r.Early, r.Twice)
				}
				if (r.Faults() == nil) != (fault == "none") {
					t.Errorf("faults: %v", r.Faults())
				}
				if len(purges) != 0 {
					t.Errorf("it purges what is not there: %s", <-purges)
				}
			})
		}
	}
}

// Jobs that never come are lost as soon as patience is over, and what may be left of them is removed.
func TestLost(t *testing.T) {
	t.Parallel()
	o, purges := against(t, testenv.Faults{Answer: `{"code":200,"message":"","data":{}}`})
	o.Patience = 300 * time.Millisecond
	r, err := bench.Lateness(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 50 || r.Faults() == nil {
		t.Errorf("%d lost of 50, faults %v", r.Lost, r.Faults())
	}
	if len(purges) != 8 { // two topics, four states
		t.Errorf("%d purges", len(purges))
	}
	o.Jobs = 100 // more than may be under way
	if _, err = bench.Steady(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no job comes any more") {
		t.Errorf("steady: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	o, _ := against(t, testenv.Faults{Answer: `{"code":503,"message":"saturated","data":null}`})
	if _, err := bench.Push(t.Context(), o); err == nil || !strings.Contains(err.Error(), "saturated") {
		t.Errorf("push: %v", err)
	}
}

// Whoever interrupts a drain does not leave its jobs behind.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	o, purges := against(t, testenv.Faults{})
	o.MinDelay, o.MaxDelay, o.Progress = 0, time.Hour, &bench.Progress{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := bench.Drain(ctx, o)
		ended <- err
	}()
	testenv.Eventually(t, 10*time.Second, func() bool { pushed, _ := o.Progress.Counts(); return pushed == 50 }, "all is pushed")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("drain: %v", err)
	}
	if first := <-purges; first != `{"topic":"bench-1.0","state":"delayed"}` {
		t.Errorf("first purge %s", first)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good, _ := against(t, testenv.Faults{})
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*bench.Options){
		"must be 1 or more":    func(o *bench.Options) { o.Topics = 0 },
		"size must be 11":      func(o *bench.Options) { o.Size = 10 },
		"the delays must be":   func(o *bench.Options) { o.MinDelay = time.Hour },
		"batch must be 1000":   func(o *bench.Options) { o.Batch = 1001 },
		"topics must be 1000":  func(o *bench.Options) { o.Topics = 1001 },
		"rate must be 0":       func(o *bench.Options) { o.Rate = -1 },
		"and patience more":    func(o *bench.Options) { o.Patience = 0 },
		"less than 1000000000": func(o *bench.Options) { o.Jobs = 1_000_000_000 },
	} {
		o := good
		spoil(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
