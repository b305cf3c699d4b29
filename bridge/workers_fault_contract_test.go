package bridge_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// heard is how much later than the server, where a TTR starts, a worker may have a message on a busy machine.
const heard = 200 * time.Millisecond

// others pushes jobs of another topic until it is stopped; then none of them was late. What a worker of one topic does
// is nobody else's concern.
func (r *rig) others(t *testing.T) func() {
	t.Helper()
	const every, late = 20 * time.Millisecond, time.Second
	w := r.handle(t, "other", func(d *delivery) { _ = d.Ack() })
	nc, over, done := r.connect(), make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				_ = nc.Publish(r.subject("push.other"), fmt.Appendf(nil, `{"id":"other-%d","delay":0.1}`, n))
			case <-over:
				done <- n
				return
			}
		}
	}()
	return func() {
		t.Helper()
		close(over)
		n := <-done
		var latest time.Duration
		for _, d := range w.await(t, n) {
			latest = max(latest, d.at.Sub(d.due()))
		}
		t.Logf("of %d jobs of another topic the latest came %v late", n, latest.Round(time.Millisecond))
		if latest > late {
			t.Errorf("a job of another topic came %v late", latest)
		}
	}
}

// TestSlowWorker: what a worker's own pending limit drops, or what is lost when the server cuts off a worker that does
// not read, comes again after its TTR, to whoever listens then.
func TestSlowWorker(t *testing.T) {
	t.Parallel()
	const jobs, size = 300, 40_000
	limits := func(o *server.Options) { o.MaxPending, o.WriteDeadline = 1<<20, 200*time.Millisecond }
	for name, slow := range map[string]func(t *testing.T, r *rig) (cut func() bool){
		"its client drops": func(t *testing.T, r *rig) func() bool {
			t.Helper()
			nc := r.connect(nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			held := make(chan struct{})
			t.Cleanup(func() { close(held) })
			sub, err := nc.QueueSubscribe(r.subject("ready.slow"), "g", func(*nats.Msg) { <-held })
			if err == nil {
				err = sub.SetPendingLimits(5, -1)
			}
			if err == nil {
				err = nc.FlushTimeout(patience)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() bool {
				dropped, err := sub.Dropped()
				if err == nil && dropped > 0 {
					err = sub.Unsubscribe()
				}
				return err == nil && dropped > 0
			}
		},
		"the server cuts it off": func(t *testing.T, r *rig) func() bool {
			t.Helper()
			conn, err := net.Dial("tcp", r.nats.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			before := r.nats.Server().NumSubscriptions()
			if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nSUB %s g 1\r\n", r.subject("ready.slow")); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, patience, func() bool { return r.nats.Server().NumSubscriptions() > before }, "it has subscribed")
			return func() bool { return r.nats.Server().NumSlowConsumers() > 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nats := testenv.NATS(t, limits)
			r := newRig(t, func(s *setup) { s.nats = nats })
			quick := r.others(t)
			cut := slow(t, r)
			body := strings.Repeat("x", size)
			for i := range jobs {
				r.push(t, fmt.Sprintf(`{"id":"slow-%d","topic":"slow","ttr":2,"body":%q}`, i, body))
			}
			testenv.Eventually(t, patience, cut, "the worker is too slow")
			w := r.join(t, r.connect(), &worker{audience: "good", handle: func(d *delivery) { _ = d.Ack() }}, "slow", "g")
			testenv.Eventually(t, patience, func() bool { return w.jobs() == jobs }, "every job comes to who listens")
			quick()
			r.emptied(t)
			again := 0
			for _, d := range w.latest() {
				if d.attempt() > 1 {
					again++
				}
			}
			t.Logf("%d of %d jobs came again", again, jobs)
			if again == 0 {
				t.Error("the slow worker had no job")
			}
		})
	}
}

// TestWorkerVanishes: what a worker had when its connection broke comes again after its TTR, not before, and to another one.
func TestWorkerVanishes(t *testing.T) {
	t.Parallel()
	const jobs, ttr = 30, 1500*time.Millisecond - heard
	r := newRig(t)
	vanishing := r.connect()
	gone := r.member(t, vanishing, "t", "g")
	list := make([]string, jobs) // one message: the first must not come again before the last is there
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":1.5}`, i)
	}
	r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]"))
	had := map[string]time.Time{}
	for _, d := range gone.await(t, jobs) {
		had[d.is(t, d.id(), 1).id()] = d.at
	}
	vanishing.Close()
	w := r.member(t, r.connect(), "t", "g")
	for _, d := range w.await(t, jobs) {
		d.is(t, d.id(), 2)
		if after := d.at.Sub(had[d.id()]); after < ttr || after > ttr+2*time.Second {
			t.Errorf("%s comes again after %v, its TTR is %v", d.id(), after, ttr)
		}
		d.finish(t)
	}
	r.emptied(t)
}

// TestSubscriptionEndsInABatch: the server ends a subscription between two messages of one batch. Who is left gets the
// rest; where nobody is left the jobs stay ready. Of what nobody got no attempt counts.
func TestSubscriptionEndsInABatch(t *testing.T) {
	t.Parallel()
	const jobs, most = 200, 7
	for name, stays := range map[string]bool{"nobody is left": false, "another one stays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first, second := r.member(t, r.connect(), "t", "g"), &worker{audience: "group-g"}
			if err := first.sub.AutoUnsubscribe(most); err != nil {
				t.Fatal(err)
			}
			if stays {
				r.join(t, r.nc, second, "t", "g")
			}
			at := time.Now().Add(time.Second).UTC().Format(wireTime)
			list := make([]string, jobs)
			for i := range list {
				list[i] = fmt.Sprintf(`{"id":"job-%d","topic":"t","at":%q,"ttr":60,"max_attempts":1}`, i, at)
			}
			if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != 200 {
				t.Fatal(answer.raw)
			}
			first.await(t, most)
			if !stays {
				r.main.hasReturned(t, 1)
				r.join(t, r.nc, second, "t", "g")
			}
			second.await(t, jobs-most)
			got := append(first.all(), second.all()...)
			for _, d := range got {
				d.is(t, d.id(), 1).finish(t)
			}
			r.emptied(t)
			if n := len(first.all()) + second.count(); n != jobs {
				t.Errorf("%d deliveries of %d jobs", n, jobs)
			}
			if !stays && first.count() != most {
				t.Errorf("the first worker got %d", first.count())
			}
		})
	}
}
