package whole_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// oldBinary is an earlier build to upgrade from: make upgrade FROM=<commit> gives it.
var oldBinary = flag.String("old", "", "path of an earlier dqbridge to upgrade from; without it the sources are the old version")

// newOption is what the next version adds to each record: an option that this one does not know.
const newOption = "zone=Europe/Paris"

// nextVersion is a build as the next version may be: with an option more in its records, and another name.
func nextVersion(t *testing.T) string {
	t.Helper()
	return testenv.BuildVariant(t, "v99.0.0", map[string]func(text string) string{
		"delay/codec.go": func(text string) string {
			const end = "\ttail = append(tail, '\\n')\n"
			return strings.Replace(text, end, "\ttail = append(tail, \" "+newOption+"\"...)\n"+end, 1)
		},
	})
}

// versions gives the binaries to upgrade from and to.
func versions(t *testing.T) (string, string) {
	t.Helper()
	if *oldBinary != "" {
		return *oldBinary, testenv.Build(t)
	}
	return testenv.Build(t), nextVersion(t)
}

// An upgrade, one replica after the other, and the way back, under load: nobody notices.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	old, next := versions(t)
	r := newRig(t, "everysec")
	r.patience = 10 * time.Second
	start := func(binary string) *testenv.Process {
		r.binary = binary
		return r.serving()
	}
	replicas := []*testenv.Process{start(old), start(old)}
	r.workers(3, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 7) {
			return // comes again after its TTR, of whatever version the replica is then
		}
		r.working.Go(func() {
			if r.pause(rand.N(200 * time.Millisecond)) {
				r.ackSync(d)
			}
		})
	})
	job := mixed(2*time.Second, "2s")
	stop := r.flow(200, func(i int) {
		j := job(i)
		j.MaxAttempts = client.Value(strconv.Itoa(i % 3 * 4))
		if i%5 == 0 {
			j.Expires, j.Backoff = "60s", []client.Value{"0.1", "0.2"}
		}
		r.insist(j)
	})
	for _, binary := range []string{next, next, old, old} { // old, mixed, new, mixed, old
		r.pause(time.Second)
		replicas = append(replicas, start(binary))
		replicas[0].Term()
		if code := replicas[0].Wait(10 * time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		replicas = replicas[1:]
	}
	r.pause(time.Second)
	stop()
	r.landed()
	report := r.settled(15 * time.Second)
	if n := r.unanswered.Load(); n > 0 || report.Unconfirmed > 0 || report.Repeated > 0 {
		t.Errorf("%d pushes were not answered; %s", n, report.String())
	}
	r.end(replicas...)
}

// What the next version stored, this one handles in every way, and keeps what it does not know of it.
func TestOldVersionKeepsNewOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	r.binary = nextVersion(t)
	p := r.serving("DQ_BUCKETS=1")
	for _, id := range []string{"rescheduled", "run", "released", "touched", "buried", "kicked"} {
		r.request("push", fmt.Sprintf(`{"id":%q,"topic":"t","delay":600,"ttr":60,"expires":600,"backoff":[300],"headers":{"A":"b"},"body":[1]}`, id))
	}
	r.end(p)
	r.binary = testenv.Build(t)
	p = r.serving("DQ_BUCKETS=1")
	r.request("admin.reschedule", `{"id":"rescheduled","delay":900}`)
	messages, err := r.nc.SubscribeSync(r.prefix + ".ready.t")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"run", "released", "touched"} {
		r.request("admin.run", fmt.Sprintf(`{"id":%q}`, id))
		msg, late := messages.NextMsg(10 * time.Second)
		if late != nil || msg.Header.Get("Dq-Id") != id || msg.Header.Get("A") != "b" {
			t.Fatalf("delivered %v (%v)", msg, late)
		}
	}
	r.request("release", `{"id":"released"}`)
	r.request("touch", "touched")
	r.request("bury", "buried")
	r.request("bury", "kicked")
	if err = messages.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.request("admin.kick", `{"id":"kicked"}`)
	stored := r.redis.Client().HGetAll(r.ctx, r.prefix+":{0}:pool").Val()
	if len(stored) != 6 {
		t.Errorf("%d records", len(stored))
	}
	for id, record := range stored {
		if head, _, _ := strings.Cut(record, "\n"); !strings.Contains(head+" ", " "+newOption+" ") {
			t.Errorf("the record of %s is %q now", id, record)
		}
	}
	for id := range stored {
		if got := r.request("finish", id); got != `{"finished":1}` {
			t.Errorf("finish of %s: %s", id, got)
		}
	}
	r.settled(5 * time.Second)
	r.end(p)
}

// request asks the bridges, which must answer 200, and gives the data of the answer.
func (r *rig) request(tail, payload string) string {
	r.t.Helper()
	msg, err := r.nc.Request(r.prefix+"."+tail, []byte(payload), 10*time.Second)
	if err != nil {
		r.t.Fatalf("%s %s: %v", tail, payload, err)
	}
	var answer struct {
		Code int             `json:"code"`
		Data json.RawMessage `json:"data"`
	}
	if err = json.Unmarshal(msg.Data, &answer); err != nil || answer.Code != 200 {
		r.t.Fatalf("%s %s: %s (%v)", tail, payload, msg.Data, err)
	}
	return string(answer.Data)
}

// Records of a format that this version does not know are refused with a clear error wherever they are met. They are not
// misread, not lost, and cost next to nothing; other jobs go on, of the same topic too.
func TestNewerRecordsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	p := r.serving("DQ_BUCKETS=1")
	key := func(tail string) string { return r.prefix + ":{0}:" + tail }
	records := map[string]string{}
	ctx, store := r.ctx, r.redis.Client()
	for i, state := range []string{"ready", "delayed", "inflight", "dead"} {
		id, record := "new-"+state, fmt.Sprintf("2oe topic.a %d 1000 2000 3000 e1 m1\nbody", i)
		records[id] = record
		store.HSet(ctx, key("pool"), id, record)
		letter := string("rdix"[i])
		store.HIncrBy(ctx, key("topics"), letter, 1)
		store.HIncrBy(ctx, key("topics"), letter+":topic.a", 1)
		switch state {
		case "ready":
			store.RPush(ctx, key("topic:topic.a"), id)
			store.ZAdd(ctx, key("active"), redis.Z{Member: "topic.a", Score: 1000})
		case "delayed":
			store.ZAdd(ctx, key("bucket"), redis.Z{Member: id, Score: 1000})
		case "inflight":
			store.ZAdd(ctx, key("running"), redis.Z{Member: id, Score: 1000})
			store.HSet(ctx, key("tries"), id, "3 4 1 0 0.abcdef c topic.a")
		case "dead":
			store.ZAdd(ctx, key("dead"), redis.Z{Member: id, Score: float64(time.Now().UnixMilli())})
		}
	}
	r.workers(1, r.ackSync)
	p.WaitFor("is not known to this version", 30*time.Second)
	before := r.scripts()
	for i := range 50 {
		r.insist(mixed(0, "60s")(i))
	}
	r.pause(3 * time.Second)
	ran := r.scripts() - before
	t.Logf("%d calls of scripts in 3 s, with 50 jobs", ran)
	if ran > 1000 {
		t.Errorf("Redis was called %d times", ran)
	}
	for id, record := range records {
		if got := store.HGet(ctx, key("pool"), id).Val(); got != record {
			t.Errorf("the record of %s is %q now", id, got)
		}
		out, code := r.command("get", id)
		if code != 1 || !strings.Contains(out, `format "2oe" is not known to this version`) {
			t.Errorf("get: exit code %d: %s", code, out)
		}
	}
	out, code := r.command("check")
	if code != 1 || strings.Count(out, "unknown ") != len(records) || strings.Count(out, "is not known to this version") != len(records) {
		t.Errorf("check: exit code %d: %s", code, out)
	}
	if n := strings.Count(p.Stderr(), `"level":"error"`); n > 30 {
		t.Errorf("%d errors in the log", n)
	}
	for id := range records {
		r.request("finish", id)
	}
	r.check()
	r.end(p)
}

// scripts counts the calls of scripts that Redis had so far.
func (r *rig) scripts() int {
	r.t.Helper()
	info, err := r.redis.Client().Info(r.ctx, "commandstats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	calls := 0
	for line := range strings.Lines(info) {
		var n int
		if _, err = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			calls += n
		}
	}
	return calls
}

// command runs the binary as a client and gives what it prints and its exit code.
func (r *rig) command(args ...string) (string, int) {
	r.t.Helper()
	p := testenv.Start(r.t, r.env("DQ_BUCKETS=1"), args...)
	code := p.Wait(startWithin)
	return output(p), code
}
