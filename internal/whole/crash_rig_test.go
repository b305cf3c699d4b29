package whole_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// crashJobs is how many jobs are at the point of a crash: no more than a topic gets at once whose listeners are not known.
const crashJobs = 4

// crash is a rig whose first replica is killed at an exact point on its way to Redis. Its store has one bucket, so that
// one call concerns all jobs.
type crash struct {
	*rig

	proxy   *testenv.Proxy
	victim  *testenv.Process
	scripts scripts
	// warmed is how many jobs there were before.
	warmed int
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	r := newRig(t, "no")
	c := &crash{rig: r, proxy: testenv.NewProxy(t, r.redis.Addr()), scripts: readScripts(t)}
	c.start()
	return c
}

// start starts a replica behind the proxy, the next one that is killed.
func (c *crash) start() {
	c.t.Helper()
	c.victim = c.serving(c.behind()...)
}

// behind is the configuration of a replica behind the proxy.
func (c *crash) behind() []string {
	return []string{"DQ_BUCKETS=1", "DQ_REDIS_URL=redis://" + c.proxy.Addr() + "/0"}
}

// succeed starts a replica that lives.
func (c *crash) succeed() { c.serving("DQ_BUCKETS=1") }

// catch holds the calls of a script up. Redis knows all scripts then, so that the first call is carried out.
func (c *crash) catch(at testenv.Moment, script string) <-chan struct{} {
	c.t.Helper()
	for sha, source := range c.scripts.sources {
		if got, err := c.redis.Client().ScriptLoad(c.ctx, source).Result(); err != nil || got != sha {
			c.t.Fatalf("load a script: %s %v", got, err)
		}
	}
	return c.proxy.Catch(at, func(words []string) bool { return c.scripts.name(words) == script })
}

// kill waits for the catch, kills the replica there, and loses what it had on its way.
func (c *crash) kill(caught <-chan struct{}) {
	c.t.Helper()
	c.await(caught)
	c.strike()
}

func (c *crash) await(caught <-chan struct{}) {
	c.t.Helper()
	const within = 15 * time.Second
	select {
	case <-caught:
	case <-time.After(within):
		c.t.Fatalf("the point is not reached within %v", within)
	}
}

func (c *crash) strike() {
	c.victim.Kill()
	c.proxy.Drop()
	c.proxy.Heal()
}

// job gives one of the jobs, due after a delay.
func (c *crash) job(i int, delay, ttr client.Value) client.Job {
	return client.Job{ID: fmt.Sprintf("job-%06d", i), Topic: "crash", Delay: delay, TTR: ttr}
}

// late is a delay long enough that a job is not done before its push is repeated.
const late client.Value = "6s"

// insistLate pushes all jobs, each in a goroutine of its own, until they are confirmed; landed waits for that.
func (c *crash) insistLate() {
	c.patience = 500 * time.Millisecond
	for i := range crashJobs {
		c.pushing.Go(func() { c.insist(c.job(i, late, "60s")) })
	}
}

// warm lets the topic have a delivery, so that jobs of it may be leased as they become due.
func (c *crash) warm(out <-chan delivery) {
	c.t.Helper()
	c.insist(c.job(crashJobs, "", "60s"))
	c.ackSync(c.next(out))
	c.warmed++
}

// deliverAll pushes all jobs, which are due at one moment, and gives their deliveries; nobody has answered them.
func (c *crash) deliverAll(out <-chan delivery, ttr client.Value) []delivery {
	c.t.Helper()
	c.pushAt(time.Now().Add(500*time.Millisecond), 0, ttr)
	return c.nextAll(out)
}

// pushAt pushes all jobs, the first due at a moment, each further one a step later.
func (c *crash) pushAt(first time.Time, step time.Duration, ttr client.Value) {
	c.t.Helper()
	for i := range crashJobs {
		due := first.Add(time.Duration(i) * step)
		job := c.job(i, "", ttr)
		job.At = client.Value(due.UTC().Format(time.RFC3339Nano))
		c.history.Pushing(job.ID, due)
		if !c.push(job) {
			c.t.Fatal("a push is not confirmed")
		}
	}
}

func (c *crash) nextAll(out <-chan delivery) []delivery {
	c.t.Helper()
	deliveries := make([]delivery, crashJobs)
	for i := range deliveries {
		deliveries[i] = c.next(out)
	}
	return deliveries
}

// counts waits until so many jobs are in a state, as the bridge sees it.
func (c *crash) counts(of func(s client.Stats) int64, want int64) {
	c.t.Helper()
	var stats client.Stats
	testenv.Eventually(c.t, 5*time.Second, func() bool {
		_, err := c.client.Admin(c.ctx, "stats", struct{}{}, &stats)
		return err == nil && of(stats) == want
	}, fmt.Sprintf("%d jobs in the state", want))
}

// verb sends an ack verb until it is answered, which must be a yes, and gives the state of the job.
func (c *crash) verb(d delivery, payload string) string {
	for c.ctx.Err() == nil {
		reply, err := c.nc.Request(d.msg.Reply, []byte(payload), 500*time.Millisecond)
		if err != nil {
			c.acksUnsure.Add(1)
			c.pause(20 * time.Millisecond)
			continue
		}
		var answer struct {
			Code int `json:"code"`
			Data struct {
				State string `json:"state"`
			} `json:"data"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Code != http.StatusOK {
			c.t.Errorf("%s of %s is answered %s (%v)", payload, d.ID, reply.Data, err)
		}
		return answer.Data.State
	}
	return ""
}

// expect checks how often the jobs were delivered: again with the same attempt, and with a later one.
func (c *crash) expect(repeated, redelivered int) {
	c.t.Helper()
	report := c.settled(15 * time.Second)
	if report.Pushed != crashJobs+c.warmed || report.Repeated != repeated || report.Redelivered != redelivered {
		c.t.Errorf("want %d jobs, %d of them repeated and %d redelivered: %s", crashJobs+c.warmed, repeated, redelivered, report.String())
	}
}
