package whole_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// onWire is how long after a confirmed finish a delivery may still arrive that was on its way: leased before the finish,
// and published after it. That takes milliseconds, but not where two cores run the servers, replicas and clients of
// several tests at once.
const onWire = time.Second

// clients push and work, and write down what they see. All of them end with the test.
type clients struct {
	t       *testing.T
	nats    *testenv.NATSServer
	client  client.Client
	nc      *nats.Conn // of the pushers and the acks
	prefix  string
	history *whole.History

	// patience is how long a push waits for its answer, ackPatience how long an ack.
	patience, ackPatience time.Duration
	// wire is how long after a confirmed finish a delivery may still arrive that was on its way.
	wire time.Duration
	// reads says that workers read what is answered to their acks: AckSync takes any answer for a yes, also that Redis
	// is away (TestAckSyncWhileRedisIsAway).
	reads bool
	// mayReject says that acks may be lost, which the bridge announces as rejected.
	mayReject atomic.Bool

	ctx     context.Context // over when the test is
	stop    context.CancelFunc
	working sync.WaitGroup
	pushing sync.WaitGroup

	// What became of pushes: without an answer, without a bridge, answered 503, answered as stored already.
	unanswered, unserved, refused, duplicate atomic.Int64
	// reasons are the texts of the 503s, with the number of each as an *atomic.Int64.
	reasons sync.Map
	// acksUnsure counts acks that were repeated, since the first had no good answer.
	acksUnsure atomic.Int64
}

func newClients(t *testing.T, server *testenv.NATSServer, prefix string) *clients {
	t.Helper()
	c := &clients{t: t, nats: server, prefix: prefix, history: whole.NewHistory(time.Now)}
	c.patience, c.ackPatience, c.wire = 3*time.Second, 500*time.Millisecond, onWire
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.nc = c.connect()
	c.client = client.New(c.nc, prefix)
	if _, err := c.nc.Subscribe(c.client.EventPrefix()+"rejected", func(msg *nats.Msg) {
		if !c.mayReject.Load() {
			t.Errorf("rejected: %.200s: %v", msg.Data, msg.Header)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		c.pushing.Wait()
		c.working.Wait()
	})
	return c
}

// connect gives a connection that finds its server again.
func (c *clients) connect() *nats.Conn {
	c.t.Helper()
	return c.nats.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) { // deliveries are lost in the client; all else is a lost connection
				c.t.Errorf("nats client: %v", err)
			}
		}))
}

// delivery is what a worker gets.
type delivery struct {
	client.Delivery

	msg *nats.Msg
}

// workers take all jobs on n connections. take gets one delivery after the other and must not wait.
func (c *clients) workers(n int, take func(d delivery)) {
	c.t.Helper()
	const pending = 64 << 10
	for range n {
		messages := make(chan *nats.Msg, pending)
		nc := c.connect()
		if _, err := nc.ChanQueueSubscribe(c.client.ReadySubject(">"), "workers", messages); err != nil {
			c.t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			c.t.Fatal(err)
		}
		c.working.Go(func() {
			for {
				select {
				case msg := <-messages:
					c.deliver(msg, take)
				case <-c.ctx.Done():
					return
				}
			}
		})
	}
}

func (c *clients) deliver(msg *nats.Msg, take func(d delivery)) {
	d, err := client.ParseDelivery(msg)
	if err != nil {
		c.t.Errorf("delivery on %s: %v", msg.Subject, err)
		return
	}
	c.history.Delivered(d.ID, d.Attempt, d.DueAt)
	take(delivery{d, msg})
}

// into hands deliveries to the test.
func (c *clients) into(out chan<- delivery) func(d delivery) {
	return func(d delivery) {
		select {
		case out <- d:
		case <-c.ctx.Done():
		}
	}
}

// next waits for a delivery.
func (c *clients) next(out <-chan delivery) delivery {
	c.t.Helper()
	const within = 20 * time.Second
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case d := <-out:
		return d
	case <-timer.C:
		c.t.Fatalf("no delivery within %v", within)
		return delivery{}
	}
}

// ack finishes a job and waits for no confirmation.
func (c *clients) ack(d delivery) {
	c.history.Finishing(d.ID)
	if err := d.msg.Respond([]byte("+ACK")); err != nil && c.ctx.Err() == nil {
		c.t.Errorf("ack: %v", err)
	}
}

// ackSync finishes a job beside the worker: it acks until that is confirmed, half of the jobs with nats.go's AckSync.
// It gives up in the end, and the job comes again.
func (c *clients) ackSync(d delivery) {
	c.working.Go(func() {
		giveUp := time.Now().Add(10 * time.Second)
		for pause := 20 * time.Millisecond; time.Now().Before(giveUp); pause = min(2*pause, 500*time.Millisecond) {
			c.history.Finishing(d.ID)
			err := c.ackOnce(d)
			var no *client.Error
			switch {
			case err == nil:
				c.history.Finished(d.ID)
				return
			case errors.As(err, &no) && no.Code != http.StatusServiceUnavailable:
				c.t.Errorf("ack of %s: %v", d.ID, err)
				return
			}
			c.acksUnsure.Add(1)
			if !c.pause(pause) || c.history.IsFinished(d.ID) {
				return
			}
		}
	})
}

func (c *clients) ackOnce(d delivery) error {
	if !c.reads && share(d.ID, 2) {
		return d.msg.AckSync(nats.AckWait(c.ackPatience))
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.ackPatience)
	defer cancel()
	_, err := c.client.Ack(ctx, d.msg)
	return err
}

// flow calls push at a rate, with 0, 1, 2 and so on, until it is stopped or the test ends. Stop it with the function that
// it gives; it does not wait for the last answers: landed does.
func (c *clients) flow(perSecond int, push func(i int)) func() {
	over := make(chan struct{})
	c.pushing.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-c.ctx.Done():
				return
			case <-tick.C:
				c.pushing.Go(func() { push(i) })
			}
		}
	})
	return sync.OnceFunc(func() { close(over) })
}

// once pushes a job and never again, whatever the answer: nobody knows what became of a push without one.
func (c *clients) once(job func(i int) client.Job) func(i int) {
	return func(i int) { c.pushOnce(job(i)) }
}

// insist pushes a job until it is confirmed, always with the same id.
func (c *clients) insist(job client.Job) {
	for c.ctx.Err() == nil && !c.pushOnce(job) {
		c.pause(20 * time.Millisecond)
	}
}

// recovers waits until pushes are confirmed again.
func (c *clients) recovers() {
	c.t.Helper()
	before, _ := c.history.Count()
	testenv.Eventually(c.t, 15*time.Second, func() bool {
		now, _ := c.history.Count()
		return now > before
	}, "pushes are confirmed again")
}

// landed waits until all flows are over and all pushes answered or given up.
func (c *clients) landed() {
	c.t.Helper()
	c.pushing.Wait()
	c.t.Logf("pushes: %d unanswered, %d without a bridge, %d refused, %d stored already; %d acks repeated", c.unanswered.Load(),
		c.unserved.Load(), c.refused.Load(), c.duplicate.Load(), c.acksUnsure.Load())
}

// pushOnce pushes and reports whether it was confirmed.
func (c *clients) pushOnce(job client.Job) bool {
	due := time.Now()
	if d, err := time.ParseDuration(string(job.Delay)); err == nil {
		due = due.Add(d)
	}
	c.history.Pushing(job.ID, due)
	return c.push(job)
}

func (c *clients) push(job client.Job) bool {
	ctx, cancel := context.WithTimeout(c.ctx, c.patience)
	defer cancel()
	pushed, _, err := c.client.Push(ctx, job)
	var no *client.Error
	switch {
	case err == nil:
		c.history.Pushed(job.ID, pushed.DueAt)
		if pushed.Duplicate {
			c.duplicate.Add(1)
		}
		return true
	case errors.As(err, &no) && no.Code == http.StatusServiceUnavailable:
		c.refuse(no.Message)
	case errors.As(err, &no):
		c.t.Errorf("push of %s: %v", job.ID, err)
	case errors.Is(err, client.ErrNoBridge):
		c.unserved.Add(1)
	default: // no answer in time, or the connection is away
		c.unanswered.Add(1)
	}
	return false
}

// refuse counts a 503.
func (c *clients) refuse(reason string) {
	c.refused.Add(1)
	times, _ := c.reasons.LoadOrStore(reason, new(atomic.Int64))
	times.(*atomic.Int64).Add(1)
}

// refusedFor says whether a push was refused with this in its reason.
func (c *clients) refusedFor(text string) bool {
	found := false
	c.reasons.Range(func(reason, _ any) bool {
		found = strings.Contains(fmt.Sprint(reason), text)
		return !found
	})
	return found
}

// pause waits and reports whether to go on.
func (c *clients) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// check compares what was seen with what was promised, a while after the last delivery: what should not come may.
func (c *clients) check() whole.Report {
	c.t.Helper()
	const longest = 5 * time.Second // where finishes may be undone there is no end to wait for
	c.pause(min(c.wire, longest) + 200*time.Millisecond)
	report := c.history.Check(c.wire)
	c.t.Log(report.String())
	if err := report.Err(); err != nil {
		c.t.Error(err)
	}
	return report
}

// share is true for every n-th id, always the same ones.
func share(id string, n uint32) bool { return crc32.ChecksumIEEE([]byte(id))%n == 0 }

// upTo is a delay between nothing and the longest one, in whole ms.
func upTo(longest time.Duration) client.Value {
	return client.Value(strconv.FormatInt(rand.Int64N(longest.Milliseconds()+1), 10) + "ms")
}

// mixed gives jobs of three topics, due within longest.
func mixed(longest time.Duration, ttr client.Value) func(i int) client.Job {
	return func(i int) client.Job {
		return client.Job{
			ID: fmt.Sprintf("job-%06d", i), Topic: "topic." + string(rune('a'+i%3)), Delay: upTo(longest), TTR: ttr,
			Body: []byte(`"` + strings.Repeat("x", 80) + `"`),
		}
	}
}
