package bridge_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// durable starts a Redis of the test's own that loses nothing when it is killed.
func durable(t *testing.T) *testenv.RedisServer {
	t.Helper()
	return testenv.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
}

// ready waits until a bridge says that it is ready, or that it is not; and then until the server has read what it
// subscribes, which may take it a moment longer.
func (b *replica) ready(t *testing.T, want int, within time.Duration) {
	t.Helper()
	testenv.Eventually(t, within, func() bool {
		status, _ := b.get(t, "/readyz")
		// A connection that has just broken still looks well: then the flush fails.
		return status == want && (want != http.StatusOK || b.link.FlushTimeout(time.Second) == nil)
	}, fmt.Sprintf("/readyz is %d", want))
}

// TestRedisAwayAndBack: the bridge goes on by itself; what was confirmed is there, what was not is refused.
func TestRedisAwayAndBack(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		away, back func(r *testenv.RedisServer)
		refusal    string // of a push meanwhile
	}{
		"killed": {(*testenv.RedisServer).Kill, (*testenv.RedisServer).Restart, "nothing was stored"},
		"ended":  {(*testenv.RedisServer).Shutdown, (*testenv.RedisServer).Restart, "nothing was stored"},
		"frozen": {(*testenv.RedisServer).Stop, (*testenv.RedisServer).Cont, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := durable(t)
			r := newRig(t, func(s *setup) { s.redis = redis })
			r.history.allowRepeats() // a delivery whose confirmation was lost comes again after its lease
			w, rejected := r.work(t, "t"), r.events(t, "rejected")
			r.push(t, `{"id":"held","topic":"silent"}`)
			r.push(t, `{"id":"out","topic":"t","ttr":600}`)
			out := w.next(t).is(t, "out", 1)
			r.push(t, `{"id":"asked","topic":"t","ttr":600}`)
			asked := w.next(t).is(t, "asked", 1)
			r.confirmed(t, "out", "asked")
			r.push(t, `{"id":"due","topic":"t","delay":1}`)
			r.push(t, `{"id":"later","topic":"t","delay":8}`)

			row.away(redis)
			// A frozen Redis answers the first pushes when it goes on, so only what is refused is looked at.
			answer := r.ask(t, r.msg("push", `{"id":"refused","topic":"t","delay":600}`))
			refused(t, answer, 503, row.refusal)
			if answer.raw[strings.LastIndex(answer.raw, `"data":`):] != `"data":{"id":"refused"}}` {
				t.Errorf("the data names not the id: %s", answer.raw)
			}
			// An answer that a client's AckSync takes for no answer.
			if answer, err := r.nc.Request(asked.Reply, []byte("+WPI"), patience); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("an ack: %v %v", answer, err)
			}
			refused(t, r.ask(t, r.msg("finish", "nothing")), 503)
			list := r.ask(t, r.msg("push", `[{"id":"refused","topic":"t","delay":600},{"topic":""}]`))
			if e := decoded[[]reply](t, list); list.Code != 207 || len(e) != 2 || e[0].Code != 503 || e[1].Code != 400 {
				t.Errorf("an array: %s", list.raw)
			}
			r.main.ready(t, 503, 6*time.Second)
			if status, body := r.main.get(t, "/healthz"); status != 200 {
				t.Errorf("/healthz: %d %s", status, body)
			}
			if up := r.main.metric(t, "dqbridge_redis_up"); up != 0 {
				t.Errorf("dqbridge_redis_up is %v", up)
			}
			r.send(t, r.msg("push", `{"id":"plain","topic":"t"}`))
			if d := rejected.next(t); d.Header.Get("Dq-Error-Code") != "503" || string(d.Data) != `{"id":"plain","topic":"t"}` {
				t.Errorf("event %v %s", d.Header, d.Data)
			}
			_ = out.Ack() // nobody waits for the answer: it is kept until Redis is back
			if err := r.nc.FlushTimeout(patience); err != nil {
				t.Fatal(err)
			}

			row.back(redis)
			r.main.ready(t, 200, 10*time.Second)
			if p := r.push(t, `{"id":"after","topic":"t"}`); p.Duplicate {
				t.Errorf("after: %+v", p)
			}
			seen := map[string]bool{}
			for !seen["due"] || !seen["later"] || !seen["after"] {
				d := w.next(t)
				seen[d.id()] = true
				if d.id() != "asked" && d.id() != "plain" && d.id() != "refused" {
					d.is(t, d.id(), 1)
				}
				_ = d.Ack()
			}
			if s := asked.settle(t, "+WPI"); s.State != "inflight" {
				t.Errorf("a job that was out is %+v", s)
			}
			asked.finish(t)
			testenv.Eventually(t, patience, func() bool { return r.finish(t, "out") == 0 && !seen["out"] }, "the ack that was sent meanwhile is carried out")
			r.finish(t, "refused") // where the answer was lost it may be stored
			r.finish(t, "plain")
			held := r.work(t, "silent")
			held.next(t).is(t, "held", 1).finish(t)
			r.emptied(t)
			for text, most := range map[string]int{"connection is away": 1, "connection is there": 3} {
				if n := len(r.main.log.lines(text)); n > most {
					t.Errorf("the log says %d times that the %s", n, text)
				}
			}
			if n := len(r.main.log.lines(`"level":"warn"`)) + len(r.main.log.lines(`"level":"error"`)); n > 40 {
				t.Errorf("the log has %d warnings", n)
			}
		})
	}
}

// counts waits until so many deliveries are certain.
func (r *rig) counts(t *testing.T, deliveries float64) {
	t.Helper()
	r.main.counts(t, "dqbridge_deliveries_total", deliveries)
}

// TestRedisFull: pushes are refused with Redis's reason; what is out can be settled.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := newRig(t, func(s *setup) { s.redis = redis })
	w := r.work(t, "t")
	for i := range 4 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":600,"max_attempts":3}`, i))
	}
	out := w.await(t, 4)
	r.counts(t, 4)
	set := func(size string) {
		t.Helper()
		if err := redis.Client().ConfigSet(t.Context(), "maxmemory", size).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	refused(t, r.ask(t, r.msg("push", `{"id":"no","topic":"t"}`)), 503, "nothing was stored", "OOM")
	out[0].finish(t)
	r.finish(t, out[1].id())
	out[2].settle(t, "+TERM")
	out[3].settle(t, "-NAK")
	w.await(t, 5)[4].is(t, out[3].id(), 2).finish(t)
	set("0")
	r.push(t, `{"id":"yes","topic":"t"}`)
	w.await(t, 6)[5].is(t, "yes", 1).finish(t)
	r.finish(t, out[2].id())
	r.emptied(t)
}

// TestScriptsAndConnectionsGone: Redis forgets its scripts or drops its clients, and nobody notices.
func TestScriptsAndConnectionsGone(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := newRig(t, func(s *setup) { s.redis = redis })
	r.history.allowRepeats()
	w := r.handle(t, "t", func(d *delivery) { _ = d.Ack() })
	stored := 0
	for i := range 200 {
		if i%10 == 0 {
			if err := redis.Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if i%25 == 24 {
			// It ends this very connection, too.
			_ = redis.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		}
		answer := r.ask(t, r.msg("push", fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":%q,"ttr":2}`, i, fmt.Sprintf("%dms", i))))
		if answer.Code == 200 {
			stored++
		} else if answer.Code != 503 {
			t.Errorf("push %d: %s", i, answer.raw)
		}
	}
	if stored < 180 {
		t.Errorf("only %d of 200 pushes were taken", stored)
	}
	r.emptied(t)
	if n := w.jobs(); n < stored {
		t.Errorf("%d of %d jobs were delivered", n, stored)
	}
}

// TestWaitForReplicas: a push is confirmed once so many replicas of Redis hold it.
func TestWaitForReplicas(t *testing.T) {
	t.Parallel()
	master := testenv.Redis(t)
	r := newRig(t, func(s *setup) { s.redis, s.waitReplicas = master, 1 })
	w := r.work(t, "t")
	answer := r.ask(t, r.msg("push", `{"id":"a","topic":"t"}`))
	refused(t, answer, 503, "may be stored")
	if !strings.HasSuffix(answer.raw, `"data":{"id":"a"}}`) {
		t.Errorf("the data names not the id: %s", answer.raw)
	}
	w.next(t).is(t, "a", 1) // it is stored, and verbs wait for nobody
	refused(t, r.ask(t, r.msg("push", `{"id":"a","topic":"t"}`)), 503)

	host, port, _ := strings.Cut(master.Addr(), ":")
	testenv.Redis(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	testenv.Eventually(t, patience, func() bool {
		return r.ask(t, r.msg("push", `{"id":"b","topic":"t"}`)).Code == 200
	}, "with a replica pushes are confirmed")
	if p := r.push(t, `{"id":"a","topic":"t"}`); !p.Duplicate {
		t.Errorf("the push again: %+v", p)
	}
	r.finish(t, "a")
	r.finish(t, "b")
	r.emptied(t)
}

// TestNATSAwayAndBack: the bridge connects again by itself, counts no attempt meanwhile, and old acks stay good.
func TestNATSAwayAndBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.history.allowRepeats()
	w := r.work(t, "t")
	r.push(t, `{"id":"out","topic":"t","ttr":600}`)
	out := w.next(t).is(t, "out", 1)
	r.counts(t, 1)
	const jobs = 100
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"due-%d","topic":"t","delay":%q,"max_attempts":1}`, i, fmt.Sprintf("%dms", 300+5*i)))
	}
	r.push(t, `{"id":"late","topic":"t","delay":5}`)
	r.nats.Shutdown()
	r.main.ready(t, 503, patience)
	if up := r.main.metric(t, "dqbridge_nats_up"); up != 0 {
		t.Errorf("dqbridge_nats_up is %v", up)
	}
	pause(t, 1500*time.Millisecond) // all but one are due while NATS is away
	r.nats.Restart()
	r.main.ready(t, 200, patience)
	testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
	out.finish(t)
	r.push(t, `{"id":"after","topic":"t"}`)
	seen := map[string]bool{"out": true}
	for len(seen) < jobs+3 {
		d := w.next(t)
		seen[d.is(t, d.id(), 1).id()] = true
		_ = d.Ack()
	}
	r.emptied(t)
	if n := len(r.main.log.lines("connection is away")); n != 1 {
		t.Errorf("the log says %d times that a connection is away", n)
	}
}

// TestTooLarge: a job that the server no longer takes is dead, told of, and holds up nobody.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	var options *server.Options
	r := newRig(t, func(s *setup) { s.natsOptions = []testenv.NATSOption{func(o *server.Options) { options = o }} })
	dead, delivered := r.events(t, "dead.t"), r.events(t, "delivered.t")
	body := strings.Repeat("x", 20_000)
	r.push(t, `{"id":"large","topic":"t","delay":1,"body":"`+body+`"}`)
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"small-%d","topic":"t","delay":1}`, i))
	}
	options.MaxPayload = 8192
	r.nats.Restart()
	r.main.ready(t, 200, patience)
	testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
	w := r.work(t, "t")
	for _, d := range w.await(t, 20) {
		if d.id() == "large" {
			t.Fatalf("delivered %d bytes", len(d.Data))
		}
		_ = d.Ack()
	}
	d := dead.next(t)
	if d.Header.Get("Dq-Reason") != "too_large" || d.Header.Get("Dq-Truncated") != "true" || d.id() != "large" ||
		!strings.HasPrefix(string(d.Data), `{"id":"large","topic":"t","delay":1,`) {
		t.Errorf("died with %v: %.100s", d.Header, d.Data)
	}
	if !r.main.log.has(`"level":"error"`) {
		t.Error("no error in the log")
	}
	if n := r.main.metric(t, `dqbridge_dead_total{reason="too_large"}`); n != 1 {
		t.Errorf("%v dead jobs are counted", n)
	}
	if n := r.finish(t, "large"); n != 1 {
		t.Errorf("finished %d", n)
	}
	for _, d := range delivered.await(t, 20) {
		if strings.Contains(string(d.Data), `"large"`) {
			t.Errorf("told as delivered: %s", d.Data)
		}
	}
	r.main.counts(t, "dqbridge_deliveries_total", 20)
	r.emptied(t)
}
