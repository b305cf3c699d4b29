package dashboard_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// patience is how long a test waits for what must happen: far longer than it takes, as the machine may be busy.
const patience = 30 * time.Second

// secret is the token of a guarded bridge.
const secret = "open-sesame-9f2c"

// rig is one bridge with a store of its own, and a client.
type rig struct {
	t      *testing.T
	nc     *nats.Conn
	client client.Client
	prefix string
	// addr is where its dashboard is.
	addr string
}

// newRig starts a bridge and waits until it serves; token may be empty.
func newRig(t *testing.T, token string) *rig {
	t.Helper()
	return newRigOn(t, token, testenv.SharedRedis(t).URL())
}

// newRigOn takes another Redis than the one of all tests.
func newRigOn(t *testing.T, token, redisURL string) *rig {
	t.Helper()
	r := &rig{t: t, prefix: testenv.Prefix(t), addr: net.JoinHostPort("127.0.0.1", testenv.FreePort(t))}
	server := testenv.NATS(t)
	log := &testenv.Output{}
	logger := zerolog.New(log).With().Timestamp().Logger()
	redis, err := delay.Dial(delay.RedisOptions{URL: redisURL, Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	link, err := bridge.Connect(bridge.LinkOptions{URL: server.URL(), Log: logger, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	const longest = 87600 * time.Hour
	store := delay.NewStore(redis, delay.StoreOptions{Prefix: r.prefix, Buckets: 8, MaxDelay: longest})
	b := bridge.New(link, store, bridge.Options{
		Prefix: r.prefix, Version: "v1.2.3", Tick: time.Second, MaxDelay: longest, MaxBody: 1_000_000, DefaultTTR: time.Minute,
		MaxInflight: 1000, ShutdownTimeout: time.Second, HTTPAddr: r.addr, HTTPToken: token, Now: time.Now,
	}, logger)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the bridge ends with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the bridge:\n%s", log)
		}
	})
	testenv.Eventually(t, patience, func() bool { return strings.Contains(log.String(), "bridge serves") }, "the bridge serves")
	r.nc = server.Connect()
	r.client = client.New(r.nc, r.prefix)
	return r
}

// context bounds one request.
func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// push stores jobs.
func (r *rig) push(jobs ...client.Job) {
	r.t.Helper()
	for _, job := range jobs {
		if _, _, err := r.client.Push(r.context(), job); err != nil {
			r.t.Fatal(err)
		}
	}
}

// ask sends a request and wants a success.
func (r *rig) ask(subject string, input any) {
	r.t.Helper()
	payload, err := json.Marshal(input)
	if err != nil {
		r.t.Fatal(err)
	}
	reply, err := r.nc.RequestWithContext(r.context(), r.prefix+"."+subject, payload)
	if err != nil {
		r.t.Fatal(err)
	}
	var envelope client.Envelope
	if err := json.Unmarshal(reply.Data, &envelope); err != nil || envelope.Code != 200 {
		r.t.Fatalf("%s: %s", subject, reply.Data)
	}
}

// bury makes jobs dead.
func (r *rig) bury(reason string, ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.ask("bury", map[string]string{"id": id, "reason": reason})
	}
}

// stored gives a job as the bridge has it; nil: it has none.
func (r *rig) stored(id string) *client.Stored {
	r.t.Helper()
	var job client.Stored
	envelope, err := r.client.Admin(r.context(), "get", map[string]string{"id": id}, &job)
	if envelope.Code == 404 {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return &job
}

// becomes waits until a job is in a state; "" is gone.
func (r *rig) becomes(id, state string) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, func() bool {
		job := r.stored(id)
		if job == nil {
			return state == ""
		}
		return job.State == state
	}, id+" becomes "+state)
}

// work takes the jobs of topics and answers each with what answer gives; nil leaves it without an answer.
func (r *rig) work(topic string, answer func(d client.Delivery) []byte) {
	r.t.Helper()
	_, err := r.nc.QueueSubscribe(r.client.ReadySubject(topic), "workers", func(msg *nats.Msg) {
		d, err := client.ParseDelivery(msg)
		if err != nil {
			r.t.Error(err)
			return
		}
		if reply := answer(d); reply != nil {
			_ = msg.Respond(reply) // the server may be down by now
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.nc.FlushTimeout(patience); err != nil {
		r.t.Fatal(err)
	}
}

func finish(client.Delivery) []byte { return []byte("+ACK") }
