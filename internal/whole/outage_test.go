package whole_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// logLine is what these tests read of a line of the log.
type logLine struct {
	Level   string `json:"level"`
	System  string `json:"system"`
	Message string `json:"message"`
}

// logLines reads a log, all of which must be JSON, one object a line.
func logLines(t *testing.T, p *testenv.Process) []logLine {
	t.Helper()
	var lines []logLine
	for text := range strings.Lines(p.Stderr()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// changes counts what the log says of a system: how often it went away, and how often it came.
func changes(t *testing.T, p *testenv.Process, system string) (int, int) {
	t.Helper()
	away, there := 0, 0
	for _, line := range logLines(t, p) {
		switch {
		case line.System != system:
		case line.Level == "info":
			there++
		default:
			away++
		}
	}
	return away, there
}

func TestServersMissingAtStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, second func(r *rig) }{
		"Redis comes first": {func(r *rig) { r.redis.Restart() }, func(r *rig) { r.nats.Restart() }},
		"NATS comes first":  {func(r *rig) { r.nats.Restart() }, func(r *rig) { r.redis.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "always")
			r.redis.Kill()
			r.nats.Shutdown()
			p := r.replica()
			p.WaitFor("is away", startWithin)
			r.pause(2500 * time.Millisecond) // time to repeat itself in
			test.first(r)
			r.pause(1500 * time.Millisecond)
			if strings.Contains(p.Stderr(), "bridge serves") {
				t.Error("it serves with one of its servers")
			}
			test.second(r)
			p.WaitFor("bridge serves", startWithin)
			r.workers(1, r.ackSync)
			r.insist(mixed(0, "60s")(0))
			testenv.Eventually(t, 10*time.Second, func() bool { return r.history.IsFinished("job-000000") }, "a job is finished")
			r.settled(5 * time.Second)
			for _, system := range []string{"redis", "nats"} {
				p.Ready(5*time.Second, func() bool { // the log says it at the next look
					away, there := changes(t, p, system)
					return away == 1 && there == 1
				}, "the log says once that "+system+" is away, and once that it is there")
			}
			const most = 12
			if lines := logLines(t, p); len(lines) > most {
				t.Errorf("%d lines in the log, should be no more than %d", len(lines), most)
			}
			r.end(p)
		})
	}
}

// A replica that still waits for its servers can be stopped.
func TestStopWhileServersAreMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "no")
	r.redis.Kill()
	r.nats.Shutdown()
	p := r.replica()
	p.WaitFor("is away", startWithin)
	began := time.Now()
	r.end(p)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestServersRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "always")
	r.reads = true
	replicas := []*testenv.Process{r.serving(), r.serving()}
	r.workers(3, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 5) {
			return
		}
		r.ackSync(d)
	})
	stop := r.flow(150, r.once(mixed(2*time.Second, "2s")))
	r.pause(1500 * time.Millisecond)
	for range 2 {
		r.redis.Kill()
		r.pause(2200 * time.Millisecond) // longer than the pause between two looks of the replicas
		r.redis.Restart()
		r.recovers()
		r.pause(time.Second)
		r.nats.Shutdown()
		r.pause(800 * time.Millisecond)
		r.nats.Restart()
		r.recovers()
		r.pause(time.Second)
	}
	stop()
	r.landed()
	r.settled(30 * time.Second)
	for i, p := range replicas {
		redisAway, redisThere := changes(t, p, "redis")
		natsAway, natsThere := changes(t, p, "nats")
		t.Logf("replica %d: redis %d times away and %d times there, nats %d and %d, %d log lines", i,
			redisAway, redisThere, natsAway, natsThere, len(logLines(t, p)))
		if len(logLines(t, p)) > 60 {
			t.Error("the log is flooded")
		}
		if redisAway != 2 || redisThere != 3 || natsAway != 2 || natsThere != 3 {
			t.Error("the log should say each change once")
		}
	}
	r.end(replicas...)
}

// A worker's AckSync returns without an error only where the job is finished for good.
func TestAckSyncWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, "always")
	p := r.serving()
	out := make(chan delivery, 1)
	r.workers(1, r.into(out))
	r.insist(mixed(0, "3s")(0))
	d := r.next(out)
	r.pause(300 * time.Millisecond) // until the delivery is certain
	r.redis.Kill()
	r.history.Finishing(d.ID)
	if err := d.msg.AckSync(); err == nil {
		t.Error("AckSync says that the job is finished, while Redis is down")
	}
	r.redis.Restart()
	r.reads = true
	testenv.Eventually(t, 10*time.Second, func() bool { return r.ackOnce(d) == nil }, "an ack that is taken")
	r.settled(10 * time.Second)
	r.end(p)
}
