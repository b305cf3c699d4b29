package whole_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// frozen is how long Redis stands still below; minutes show what only a long one does.
var frozen = flag.Duration("frozen", 5*time.Second, "how long Redis stands still in TestRedisFaults")

// recoverWithin is how long after a fault all must be well again; with the race detector on a busy machine a backlog alone
// takes some seconds.
func recoverWithin() time.Duration {
	if testenv.RaceDetector {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// redisFault is something that happens to Redis, or between it and the replicas.
type redisFault struct {
	args   []string        // of its server
	strike func(f *faulty) // ends with the fault
	refuse bool            // pushes are refused meanwhile
	reason string          // which some of the refusals name
	calm   bool            // nobody notices
}

// faulty is a rig whose replicas reach Redis through a proxy.
type faulty struct {
	*rig

	proxy *testenv.Proxy
}

// The replicas go on by themselves after whatever happens to Redis, and soon.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]redisFault{
		"killed":                  {strike: killRedis, refuse: true},
		"loads for long":          {strike: loadForLong, args: []string{"--key-load-delay", "300"}, refuse: true, reason: "LOADING"},
		"frozen":                  {strike: freezeRedis, refuse: true},
		"forgets its scripts":     {strike: flushScripts, calm: true},
		"drops its clients":       {strike: dropClients},
		"requests are lost":       {strike: func(f *faulty) { f.swallow(testenv.ToServer) }, refuse: true},
		"replies are lost":        {strike: func(f *faulty) { f.swallow(testenv.ToClient) }, refuse: true},
		"far away":                {strike: delayCalls, calm: true},
		"busy with a slow script": {strike: runSlowScript, refuse: true, reason: "BUSY"},
		"cannot write its file":   {strike: failToSave, refuse: true, reason: "MISCONF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, fault.args...)
			replicas := []*testenv.Process{f.replica(), f.replica()}
			for _, p := range replicas {
				p.WaitFor("bridge serves", startWithin)
			}
			f.workers(2, f.ackSync)
			stop := f.flow(150, f.once(mixed(time.Second, "4s")))
			f.pause(1500 * time.Millisecond)
			began := time.Now()
			fault.strike(f)
			f.recovered(began, time.Now())
			stop()
			f.landed()
			report := f.settled(30 * time.Second)
			if fault.refuse && !f.refusedFor(fault.reason) {
				t.Errorf("of %d refused pushes none says %q", f.refused.Load(), fault.reason)
			}
			// With the race detector on a busy machine somebody notices the machine.
			if fault.calm && !testenv.RaceDetector && report.Unconfirmed+report.Repeated+report.Redelivered > 0 {
				t.Errorf("somebody notices: %s", report.String())
			}
			for i, p := range replicas {
				if n := len(logLines(t, p)); n > 60 {
					t.Errorf("replica %d has logged %d lines", i, n)
				}
			}
			f.end(replicas...)
		})
	}
}

func newFaulty(t *testing.T, args ...string) *faulty {
	t.Helper()
	r := newRig(t, "always", args...)
	r.patience, r.ackPatience = 5*time.Second, 2*time.Second // an answer takes 4 s where Redis gives none
	f := &faulty{rig: r, proxy: testenv.NewProxy(t, r.redis.Addr())}
	f.redisURL = "redis://" + f.proxy.Addr() + "/0"
	return f
}

// recovered waits until all is well again after a fault.
func (r *rig) recovered(began, end time.Time) {
	r.t.Helper()
	normal, within := r.history.Normal(began), recoverWithin()
	after := r.history.Recovery(end, normal)
	for time.Since(end) < 2*within && after.InTime < 0 {
		r.pause(50 * time.Millisecond)
		after = r.history.Recovery(end, normal)
	}
	r.t.Logf("%s (in time is up to %v late)", after, normal.Round(time.Millisecond))
	if after.Confirmed < 0 || after.InTime < 0 || max(after.Confirmed, after.InTime) > within {
		r.t.Errorf("%s, should be within %v", after, within)
	}
}

func killRedis(f *faulty) {
	f.redis.Kill()
	f.pause(1500 * time.Millisecond)
	f.redis.Restart()
}

// loadForLong restarts a server that takes its time for each of the many entries of its file.
func loadForLong(f *faulty) {
	const entries = 10_000
	pipe := f.redis.Client().Pipeline()
	for i := range entries {
		pipe.Set(f.ctx, "entry", i, 0)
	}
	if _, err := pipe.Exec(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	began := time.Now()
	f.redis.Kill()
	f.redis.Restart()
	f.t.Logf("it loaded for %v", time.Since(began).Round(time.Millisecond))
}

func freezeRedis(f *faulty) {
	f.redis.Stop()
	f.pause(*frozen)
	f.redis.Cont()
}

func flushScripts(f *faulty) {
	for range 15 {
		if err := f.redis.Client().ScriptFlush(f.ctx).Err(); err != nil {
			f.t.Error(err)
		}
		f.pause(200 * time.Millisecond)
	}
}

func dropClients(f *faulty) {
	for range 50 {
		// It ends this very connection, too.
		_ = f.redis.Client().Do(f.ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		f.pause(80 * time.Millisecond)
	}
}

func (f *faulty) swallow(dir testenv.Direction) {
	f.proxy.Swallow(dir)
	f.pause(5 * time.Second)
	f.proxy.Heal()
}

// delayCalls makes each call take 50 ms.
func delayCalls(f *faulty) {
	const each = 25 * time.Millisecond
	f.proxy.Delay(testenv.ToServer, each)
	f.proxy.Delay(testenv.ToClient, each)
	f.pause(4 * time.Second)
	f.proxy.Heal()
}

// runSlowScript lets somebody else's script hold Redis, until it is killed.
func runSlowScript(f *faulty) {
	other := redis.NewClient(&redis.Options{Addr: f.redis.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
	defer other.Close()
	if err := other.ConfigSet(f.ctx, "busy-reply-threshold", "50").Err(); err != nil {
		f.t.Fatal(err)
	}
	f.pushing.Go(func() {
		if err := other.Eval(f.ctx, "while true do end", nil).Err(); err == nil {
			f.t.Error("the slow script has ended")
		}
	})
	f.pause(3 * time.Second)
	testenv.Eventually(f.t, 10*time.Second, func() bool { return f.redis.Client().ScriptKill(f.ctx).Err() == nil }, "the script ends")
}

// failToSave lets Redis refuse all writes, since it cannot put its snapshot in place: something else has its name.
func failToSave(f *faulty) {
	name := filepath.Join(f.redis.Dir(), "dump.rdb", "taken")
	if err := os.MkdirAll(name, 0o700); err != nil {
		f.t.Fatal(err)
	}
	set := func(key, value string) {
		f.t.Helper()
		if err := f.redis.Client().ConfigSet(f.ctx, key, value).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
	set("save", "3600 1000000") // without any, a failure does not count
	_ = f.redis.Client().BgSave(f.ctx).Err()
	testenv.Eventually(f.t, 10*time.Second, func() bool {
		return f.redis.Client().Set(f.ctx, "refused", "", 0).Err() != nil
	}, "writes are refused")
	f.pause(3 * time.Second)
	set("stop-writes-on-bgsave-error", "no")
}
