package whole_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// startWithin is generous: the binary has the race detector, and two cores are shared.
const startWithin = 30 * time.Second

// rig is one installation: a Redis with an append-only file, a NATS server, replicas, and clients.
type rig struct {
	*clients

	// redis is nil where there is a group of servers; then masters gives those that hold jobs now.
	redis *testenv.RedisServer
	// redisURL is where replicas find Redis.
	redisURL string
	masters  func() []*testenv.RedisServer
	// binary is what replicas run that are started from now on; empty: the one that is built from the sources.
	binary string
}

// newRig starts the servers. fsync is when Redis brings its file to the disk: always, everysec or no; args go to its
// command line.
func newRig(t *testing.T, fsync string, args ...string) *rig {
	t.Helper()
	return newRigOn(t, testenv.NATS(t), fsync, args...)
}

// newRigOn takes a NATS server that is there.
func newRigOn(t *testing.T, server *testenv.NATSServer, fsync string, args ...string) *rig {
	t.Helper()
	redis := testenv.Redis(t, append([]string{"--appendonly", "yes", "--appendfsync", fsync}, args...)...)
	return &rig{
		clients: newClients(t, server, testenv.Prefix(t)), redis: redis, redisURL: redis.URL(),
		masters: func() []*testenv.RedisServer { return []*testenv.RedisServer{redis} },
	}
}

// newGroupRig starts a NATS server beside a group of Redis servers.
func newGroupRig(t *testing.T, url string, masters func() []*testenv.RedisServer) *rig {
	t.Helper()
	return &rig{clients: newClients(t, testenv.NATS(t), testenv.Prefix(t)), redisURL: url, masters: masters}
}

// env is the configuration of a replica; more wins over it.
func (r *rig) env(more ...string) []string {
	return append([]string{
		"DQ_NATS_URL=" + r.nats.URL(), "DQ_REDIS_URL=" + r.redisURL, "DQ_PREFIX=" + r.prefix, "DQ_HTTP_ADDR=",
		"DQ_LOG_FORMAT=json", "GORACE=atexit_sleep_ms=10", // a second else, with the race detector
	}, more...)
}

// replica starts a bridge and does not wait for it. At the end of the test it must not have met a data race.
func (r *rig) replica(more ...string) *testenv.Process {
	r.t.Helper()
	if r.binary == "" {
		r.binary = testenv.Build(r.t)
	}
	p := testenv.StartBinary(r.t, r.binary, r.env(more...))
	r.t.Cleanup(func() { checkOutput(r.t, p) })
	return p
}

func checkOutput(t *testing.T, p *testenv.Process) {
	t.Helper()
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(p.Stderr(), bad) {
			t.Errorf("a replica says %q", bad)
		}
	}
}

// serving starts a bridge and waits until it serves.
func (r *rig) serving(more ...string) *testenv.Process {
	r.t.Helper()
	p := r.replica(more...)
	p.WaitFor("bridge serves", startWithin)
	return p
}

// settled waits until nothing is left in Redis, then checks the history.
func (r *rig) settled(within time.Duration) whole.Report {
	r.t.Helper()
	began := time.Now()
	var left []string
	var err error
	for {
		left, err = r.leftovers()
		if err == nil && len(left) == 0 || time.Since(began) > within {
			break
		}
		r.pause(20 * time.Millisecond)
	}
	if err != nil || len(left) > 0 {
		text := strings.Join(left, "\n")
		r.t.Errorf("after %v there is still in Redis (%v):\n%s", within, err, text)
		for _, id := range slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`job-\d+`).FindAllString(text, -1)))) {
			r.t.Logf("%s: %s", id, r.history.Story(id))
		}
	} else {
		r.t.Logf("Redis is empty %v after the last push", time.Since(began).Round(time.Millisecond))
	}
	report := r.check()
	if now, err := r.leftovers(); len(left) == 0 && (err != nil || len(now) > 0) {
		r.t.Errorf("Redis was empty and is not any more (%v):\n%s", err, strings.Join(now, "\n"))
	}
	return report
}

// leftovers looks through all servers that hold jobs.
func (r *rig) leftovers() ([]string, error) {
	r.t.Helper()
	var all []string
	for _, master := range r.masters() {
		left, err := whole.Leftovers(r.ctx, master.Client(), r.prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	return all, nil
}

// end stops replicas that have nothing to do: each must end well and soon.
func (r *rig) end(replicas ...*testenv.Process) {
	r.t.Helper()
	for _, p := range replicas {
		p.Term()
	}
	for i, p := range replicas {
		if code := p.Wait(15 * time.Second); code != 0 {
			r.t.Errorf("replica %d ends with exit code %d", i, code)
		}
	}
}
