package bridge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestStorm lets workers that come and go answer at random, at two replicas with small windows. The history holds for
// every job, every job ends, and nothing is left.
func TestStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 5 })
	second := r.start(t)
	finish := func(d *delivery) {
		if rand.IntN(2) == 0 {
			_ = r.nc.Publish(r.subject("finish"), []byte(d.id()))
			return
		}
		_ = d.Ack()
	}
	handle := func(d *delivery) {
		if d.attempt() > 3 {
			finish(d)
			return
		}
		switch rand.IntN(8) {
		case 0: // its TTR runs out
		case 1:
			_ = d.Nak()
		case 2:
			_ = d.NakWithDelay(time.Duration(rand.IntN(300)) * time.Millisecond)
		case 3:
			_ = d.InProgress()
			_ = d.Nak()
		case 4:
			_ = d.Term()
		case 5:
			_ = d.Respond([]byte("garbage"))
			finish(d)
		default:
			finish(d)
		}
	}
	// Whoever died is finished as well, and some are cancelled before or while they are out.
	dead := &worker{rig: r, handle: func(d *delivery) { _ = r.nc.Publish(r.subject("finish"), []byte(d.id())) }}
	dead.subscribe(t, r.nc, r.subject("event.dead.>"), "")
	const jobs, topics = 800, 6
	w := &worker{audience: "group", handle: handle}
	r.join(t, r.nc, w, "storm.*", "g")
	for i := range jobs {
		id := fmt.Sprintf("job-%d", i)
		r.push(t, fmt.Sprintf(`{"id":%q,"topic":"storm.%d","delay":%q,"ttr":0.4,"max_attempts":%d,"backoff":[0.05,0]}`,
			id, i%topics, fmt.Sprintf("%dms", rand.IntN(600)), rand.IntN(5)))
		if i%20 == 7 {
			r.send(t, r.msg("finish", id))
		}
		if i%200 == 99 { // the worker is away for a moment
			w.leave(t)
			pause(t, 50*time.Millisecond)
			w.subscribe(t, r.nc, r.subject("ready.storm.*"), "g")
		}
	}
	r.emptied(t)
	// The windows are open again: each topic takes as many as ever at once.
	for i := range topics {
		idle := r.work(t, fmt.Sprintf("storm.%d", i))
		for j := range 5 {
			r.push(t, fmt.Sprintf(`{"id":"last-%d-%d","topic":"storm.%d","ttr":60,"max_attempts":1}`, i, j, i))
		}
		idle.await(t, 5)
	}
	for _, b := range []*replica{r.main, second} {
		if n := b.metric(t, "dqbridge_errors_total") + b.metric(t, "dqbridge_orphans_total"); n != 0 {
			t.Errorf("%v errors and orphans are counted", n)
		}
	}
}

// TestRefusedIsNotStored: of pushes to a Redis that does not answer, those of which the reply says that nothing was
// stored are not stored, also not later.
func TestRefusedIsNotStored(t *testing.T) {
	t.Parallel()
	redis := durable(t)
	r := newRig(t, func(s *setup) { s.redis = redis })
	r.push(t, `{"id":"first","topic":"t","delay":600}`)
	redis.Stop()
	var replies sync.Map // of each push, by its id
	answers, err := r.nc.Subscribe("_INBOX.mine.*", func(msg *nats.Msg) {
		replies.Store(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], string(msg.Data))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	const pushes = 200
	for i := range pushes {
		id := fmt.Sprintf("job-%d", i)
		msg := r.msg("push", fmt.Sprintf(`{"id":%q,"topic":"t","delay":600}`, id))
		msg.Reply = "_INBOX.mine." + id
		r.send(t, msg)
		pause(t, 15*time.Millisecond)
	}
	// The last ones are answered too, while Redis is still away.
	answered := func() int {
		n := 0
		replies.Range(func(any, any) bool {
			n++
			return true
		})
		return n
	}
	testenv.Eventually(t, patience, func() bool { return answered() == pushes }, "every push is answered")
	redis.Cont()
	r.main.ready(t, 200, patience)
	replies.Range(func(id, answer any) bool {
		var e reply
		if err := json.Unmarshal([]byte(fmt.Sprint(answer)), &e); err != nil || e.Code != http.StatusServiceUnavailable {
			t.Errorf("%v: %v (%v)", id, answer, err)
		}
		n := r.finish(t, fmt.Sprint(id))
		if n != 0 && strings.Contains(e.Message, "nothing was stored") {
			t.Errorf("%v is stored, and its push was answered %v", id, answer)
		}
		return true
	})
	r.finish(t, "first")
	r.emptied(t)
}

// TestLinkBroken: what was written to a connection that stands still is not taken for delivered.
func TestLinkBroken(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fault   func(p *testenv.Proxy)
		repeats bool // the worker may get what the bridge does not know of: on the wire, or before its answer was lost
	}{
		"held to the server":   {func(p *testenv.Proxy) { p.Hold(testenv.ToServer) }, true},
		"held from the server": {func(p *testenv.Proxy) { p.Hold(testenv.ToClient) }, true},
		"lost to the server":   {func(p *testenv.Proxy) { p.Swallow(testenv.ToServer) }, false},
		"lost from the server": {func(p *testenv.Proxy) { p.Swallow(testenv.ToClient) }, true},
		"cut":                  {func(p *testenv.Proxy) { p.Cut() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.NATS(t)
			proxy := testenv.NewProxy(t, server.Addr())
			r := newRig(t, func(s *setup) { s.nats, s.natsURL = server, "nats://"+proxy.Addr() })
			if row.repeats {
				r.history.allowRepeats()
			}
			w, dead := r.handle(t, "t", func(d *delivery) { _ = d.Ack() }), r.events(t, "dead.>")
			const jobs = 50
			at := time.Now().Add(3 * time.Second)
			list := make([]string, jobs)
			for i := range list {
				list[i] = fmt.Sprintf(`{"id":"job-%d","topic":"t","at":%q,"ttr":8,"max_attempts":1}`, i, at.UTC().Format(wireTime))
			}
			if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != http.StatusOK {
				t.Fatal(answer.raw)
			}
			row.fault(proxy)
			pause(t, time.Until(at)+3*time.Second) // all are due, and the bridge has given the connection up
			proxy.Heal()
			testenv.Eventually(t, patience, func() bool { return w.jobs() == jobs }, "every job is delivered")
			if !row.repeats {
				r.emptied(t)
				if n := w.count(); n != jobs || dead.count() != 0 {
					t.Errorf("%d deliveries of %d jobs, %d died", n, jobs, dead.count())
				}
			}
		})
	}
}
