package whole_test

import (
	"sync"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// lease is how long a job that was reserved waits for its delivery to be certain, slack what a busy machine needs more.
const lease, slack = 5 * time.Second, 5 * time.Second

// Each row of "where it crashes, and what then": the process is killed at that very point.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(c *crash){
		"push stored and not answered":                pushNotAnswered,
		"push not stored":                             pushNotStored,
		"between promote and reserve":                 promoted,
		"reserved and not published":                  reserved,
		"leased when due and not published":           leasedWhenDue,
		"published and not confirmed, left alone":     publishedAndLeft,
		"published and not confirmed, acked at once":  publishedAndAcked,
		"published and not confirmed, acked too late": publishedAndAckedLate,
		"confirmed and not acked":                     confirmed,
		"AckSync not committed":                       func(c *crash) { ackedSync(c, testenv.BeforeRequest) },
		"AckSync committed and not answered":          func(c *crash) { ackedSync(c, testenv.BeforeReply) },
		"ack that nobody waits for, not committed":    ackedAsync,
		"release not committed":                       func(c *crash) { verbs(c, testenv.BeforeRequest, release) },
		"release committed and not answered":          func(c *crash) { verbs(c, testenv.BeforeReply, release) },
		"touch not committed":                         func(c *crash) { verbs(c, testenv.BeforeRequest, touch) },
		"touch committed and not answered":            func(c *crash) { verbs(c, testenv.BeforeReply, touch) },
		"bury not committed":                          func(c *crash) { verbs(c, testenv.BeforeRequest, bury) },
		"bury committed and not answered":             func(c *crash) { verbs(c, testenv.BeforeReply, bury) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row(newCrash(t))
		})
	}
}

// The publisher pushes again with the same id, and finds that it is stored.
func pushNotAnswered(c *crash) {
	c.workers(1, c.ackSync)
	caught := c.catch(testenv.BeforeReply, "push")
	c.insistLate()
	c.kill(caught)
	c.succeed()
	c.landed()
	if c.duplicate.Load() == 0 {
		c.t.Error("no push found that it is stored already")
	}
	c.expect(0, 0)
}

func pushNotStored(c *crash) {
	c.workers(1, c.ackSync)
	caught := c.catch(testenv.BeforeRequest, "push")
	c.insistLate()
	c.kill(caught)
	c.succeed()
	c.landed()
	if n := c.duplicate.Load(); n != 0 {
		c.t.Errorf("%d pushes are taken for repeated ones", n)
	}
	c.expect(0, 0)
}

// The jobs are in their topic's list, for whoever reserves next.
func promoted(c *crash) {
	c.workers(1, c.ackSync)
	caught := c.catch(testenv.BeforeRequest, "reserve")
	c.pushAt(time.Now().Add(500*time.Millisecond), 0, "60s")
	c.await(caught)
	c.counts(func(s client.Stats) int64 { return s.Ready }, crashJobs)
	c.strike()
	c.succeed()
	began := time.Now()
	testenv.Eventually(c.t, slack, c.delivered, "all deliveries")
	c.t.Logf("delivered %v after another one serves", time.Since(began).Round(time.Millisecond))
	c.expect(0, 0)
}

// delivered says whether each job was delivered.
func (c *crash) delivered() bool {
	_, n := c.history.Count()
	return n == crashJobs
}

// The jobs come once, when the lease is over, and it was no attempt.
func reserved(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	caught := c.catch(testenv.BeforeReply, "reserve")
	c.pushAt(time.Now().Add(500*time.Millisecond), 0, "60s")
	c.await(caught)
	c.counts(func(s client.Stats) int64 { return s.InFlight }, crashJobs)
	began := time.Now()
	c.strike()
	c.succeed()
	for _, d := range c.afterLease(out, began) {
		c.ackSync(d)
	}
	c.expect(0, 0)
}

// The same where the script that found the jobs due has leased them.
func leasedWhenDue(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	c.strike()
	c.victim = c.serving(append(c.behind(), "DQ_TICK=1m")...) // its next promotion is that of the jobs
	c.warm(out)
	c.pushAt(time.Now().Add(time.Second), 0, "60s")
	caught := c.catch(testenv.BeforeReply, "promote")
	c.await(caught)
	c.counts(func(s client.Stats) int64 { return s.InFlight }, crashJobs)
	began := time.Now()
	c.strike()
	c.succeed()
	for _, d := range c.afterLease(out, began) {
		c.ackSync(d)
	}
	c.expect(0, 0)
}

// afterLease waits for the deliveries that follow when leases run out that began a moment before.
func (c *crash) afterLease(out <-chan delivery, began time.Time) []delivery {
	c.t.Helper()
	first := c.next(out)
	took := time.Since(began)
	c.t.Logf("delivered %v after the lease began", took.Round(time.Millisecond))
	if took < lease-500*time.Millisecond || took > lease+slack {
		c.t.Errorf("it came %v after the lease began", took)
	}
	deliveries := []delivery{first}
	for len(deliveries) < crashJobs {
		deliveries = append(deliveries, c.next(out))
	}
	for _, d := range deliveries {
		if d.Attempt != 1 {
			c.t.Errorf("attempt %d of %s", d.Attempt, d.ID)
		}
	}
	return deliveries
}

// published lets jobs be delivered whose delivery is not confirmed, and kills the replica there, after then.
func published(c *crash, out <-chan delivery, ttr client.Value, then func(d delivery)) []delivery {
	c.t.Helper()
	caught := c.catch(testenv.BeforeRequest, "confirm")
	deliveries := c.deliverAll(out, ttr)
	for _, d := range deliveries {
		then(d)
	}
	c.kill(caught)
	c.succeed()
	return deliveries
}

// The jobs come twice, and it was one attempt.
func publishedAndLeft(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	began := time.Now()
	published(c, out, "60s", func(delivery) { began = time.Now() })
	for _, d := range c.afterLease(out, began) {
		c.ackSync(d)
	}
	c.expect(crashJobs, 0)
}

// An ack that overtakes its confirm counts.
func publishedAndAcked(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	// A short TTR is confirmed at once; with a longer one there would be nothing to confirm any more.
	published(c, out, "1s", func(d delivery) {
		c.ackSync(d)
		testenv.Eventually(c.t, 5*time.Second, func() bool { return c.history.IsFinished(d.ID) }, "the ack is confirmed")
	})
	c.pause(lease + time.Second) // in which nothing comes
	c.expect(0, 0)
}

// An ack of the first delivery finishes the job, also after the second.
func publishedAndAckedLate(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	first := published(c, out, "60s", func(delivery) {})
	c.nextAll(out)
	for _, d := range first {
		c.ackSync(d)
	}
	c.expect(crashJobs, 0)
}

// The deliveries stay good: another replica takes their acks.
func confirmed(c *crash) {
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	caught := c.catch(testenv.BeforeReply, "confirm")
	deliveries := c.deliverAll(out, "60s")
	c.kill(caught)
	c.succeed()
	for _, d := range deliveries {
		c.ackSync(d)
	}
	c.expect(0, 0)
}

// certain delivers jobs, until that is confirmed.
func certain(c *crash, ttr client.Value) []delivery {
	c.t.Helper()
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	deliveries := c.deliverAll(out, ttr)
	c.pause(300 * time.Millisecond)
	return deliveries
}

// AckSync gets no answer, and the worker acks again, at another replica.
func ackedSync(c *crash, at testenv.Moment) {
	deliveries := certain(c, "60s")
	caught := c.catch(at, "finish")
	for _, d := range deliveries {
		c.ackSync(d)
	}
	c.kill(caught)
	if c.history.IsFinished(deliveries[0].ID) {
		c.t.Error("an ack is confirmed that is not carried out, or whose reply is held")
	}
	c.succeed()
	c.expect(0, 0)
	if c.acksUnsure.Load() == 0 {
		c.t.Error("no ack was repeated")
	}
}

// The jobs come again after their TTR.
func ackedAsync(c *crash) {
	const ttr = 3 * time.Second
	c.mayReject.Store(true)
	out := make(chan delivery, crashJobs)
	c.workers(1, c.into(out))
	deliveries := c.deliverAll(out, client.Value(ttr.String()))
	began := time.Now()
	c.pause(300 * time.Millisecond)
	caught := c.catch(testenv.BeforeRequest, "finish")
	for _, d := range deliveries {
		c.ack(d)
	}
	c.kill(caught)
	c.succeed()
	for _, d := range c.nextAll(out) {
		if took := time.Since(began); d.Attempt != 2 || took < ttr-time.Second || took > ttr+slack {
			c.t.Errorf("attempt %d of %s, %v after the first", d.Attempt, d.ID, took)
		}
		c.ackSync(d)
	}
	c.expect(0, crashJobs)
}

// verb is a word of a worker, with its script and the state of the job that follows.
type verb struct{ payload, script, state string }

var (
	release = verb{`-NAK {"delay": 30000000000}`, "release", "delayed"}
	touch   = verb{"+WPI", "touch", "inflight"}
	bury    = verb{"+TERM", "bury", "dead"}
)

// The verb is repeated until it is answered, which is a yes, whether it was carried out before or not.
func verbs(c *crash, at testenv.Moment, v verb) {
	deliveries := certain(c, "60s")
	caught := c.catch(at, v.script)
	var answered sync.WaitGroup
	for _, d := range deliveries {
		answered.Go(func() {
			if state := c.verb(d, v.payload); state != v.state {
				c.t.Errorf("%s is %s after %s", d.ID, state, v.payload)
			}
		})
	}
	c.kill(caught)
	c.succeed()
	answered.Wait()
	for _, d := range deliveries {
		c.finishByID(d.ID)
	}
	c.expect(0, 0)
	if c.acksUnsure.Load() == 0 {
		c.t.Error("no verb was repeated")
	}
}
