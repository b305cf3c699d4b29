package whole_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

var (
	// backlog makes the tests below as large as somebody has time: -backlog 1000000.
	backlog = flag.Int("backlog", 100_000, "how many jobs wait while those of another topic must be in time")
	flood   = flag.Duration("flood", 8*time.Second, "how long pushes come while Redis is away")
)

// usage is what a replica takes of its machine.
type usage struct{ megabytes, goroutines, files int }

func (u usage) String() string {
	return fmt.Sprintf("%d MB, %d goroutines, %d files", u.megabytes, u.goroutines, u.files)
}

// usageOf asks the system and the replica itself. Its HTTP server must listen on a port of its own choice.
func usageOf(t *testing.T, p *testenv.Process) usage {
	t.Helper()
	var u usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		if _, err = fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			u.megabytes = kilobytes >> 10
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	u.files = len(files)
	for line := range strings.Lines(httpPage(t, p, "/metrics", "")) {
		if text, found := strings.CutPrefix(line, "go_goroutines "); found {
			u.goroutines, _ = strconv.Atoi(strings.TrimSpace(text)) // 0 fails the test below
		}
	}
	return u
}

// Plain publishes come on and on while Redis takes none. What the replica keeps of them is bounded, the rest is refused and
// told of; requests are answered 503; nothing confirmed is lost; and all is as before soon after Redis is back.
func TestFloodWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ away, back func(r *rig) }{
		"killed": {func(r *rig) { r.redis.Kill() }, func(r *rig) { r.redis.Restart() }},
		"frozen": {func(r *rig) { r.redis.Stop() }, func(r *rig) { r.redis.Cont() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const perSecond, size, soon = 2000, 10_000, 10 * time.Second
			r := newRig(t, "everysec")
			r.mayReject.Store(true)
			p := r.serving("DQ_HTTP_ADDR=127.0.0.1:0")
			r.workers(1, r.ack)
			stopRequests := r.flow(50, r.once(mixed(time.Second, "60s")))
			r.pause(time.Second)
			before := usageOf(t, p)
			fault.away(r)
			stopFlood := r.floods(perSecond, size)
			most := usage{}
			for over := time.Now().Add(*flood); time.Now().Before(over); r.pause(200 * time.Millisecond) {
				u := usageOf(t, p)
				most.megabytes, most.goroutines = max(most.megabytes, u.megabytes), max(most.goroutines, u.goroutines)
				most.files = max(most.files, u.files)
			}
			published := stopFlood()
			fault.back(r)
			back := time.Now()
			r.recovers()
			t.Logf("pushes are confirmed again %v after Redis is back", time.Since(back).Round(time.Millisecond))
			r.inTime(back, soon)
			stopRequests()
			r.landed()
			r.settled(30 * time.Second)
			after := usageOf(t, p)
			for until := time.Now().Add(10 * time.Second); after.goroutines > before.goroutines+5 && time.Now().Before(until); {
				r.pause(200 * time.Millisecond)
				after = usageOf(t, p)
			}
			t.Logf("%d publishes of %d bytes; before: %v; most: %v; after: %v", published, size, before, most, after)
			limit := 512
			if raceDetector {
				limit *= 4
			}
			if most.megabytes > limit || most.goroutines > before.goroutines+50 || most.files > before.files+30 {
				t.Errorf("before: %v; most: %v", before, most)
			}
			if before.goroutines == 0 || after.goroutines > before.goroutines+5 || after.files > before.files+10 {
				t.Errorf("before: %v; after: %v", before, after)
			}
			r.end(p)
		})
	}
}

// floods publishes jobs without a reply until it is stopped, and gives how many there were.
func (r *rig) floods(perSecond, size int) func() int {
	const every = 5 * time.Millisecond
	nc, body := r.connect(), strings.Repeat("x", size)
	over, done := make(chan struct{}), make(chan int, 1)
	each := perSecond * int(every) / int(time.Second)
	r.pushing.Go(func() {
		tick := time.NewTicker(every) // drops what a slow machine does not keep up with
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-over:
				done <- n
				return
			case <-tick.C:
			}
			for range each {
				n++
				id := fmt.Sprintf("flood-%d", n)
				r.history.Pushing(id, time.Now())
				_ = nc.Publish(r.prefix+".push.flood", fmt.Appendf(nil, `{"id":%q,"ttr":60,"body":%q}`, id, body))
			}
		}
	})
	return func() int {
		close(over)
		return <-done
	}
}

// inTime waits until jobs that are pushed from now on come in time, soon after a fault is over.
func (r *rig) inTime(since time.Time, soon time.Duration) {
	r.t.Helper()
	for {
		latest := r.lateness(50, 500*time.Millisecond)
		if latest.max < 250*time.Millisecond {
			r.t.Logf("jobs are in time %v after Redis is back: %v", time.Since(since).Round(time.Millisecond), latest)
			return
		}
		if time.Since(since) > soon {
			r.t.Fatalf("%v after Redis is back jobs are late: %v", time.Since(since), latest)
		}
	}
}

// latenesses sums up how late jobs came.
type latenesses struct {
	n             int
	p50, p99, max time.Duration
}

func (l latenesses) String() string {
	return fmt.Sprintf("%d jobs, lateness p50 %v, p99 %v, max %v", l.n, l.p50.Round(10*time.Microsecond), l.p99.Round(10*time.Microsecond),
		l.max.Round(10*time.Microsecond))
}

// lateness pushes jobs of a topic of their own for a while, at a rate, and gives how late they come.
func (r *rig) lateness(perSecond int, while time.Duration) latenesses {
	r.t.Helper()
	const topic = "loud"
	nc := r.connect()
	var mu sync.Mutex
	var late []time.Duration
	if _, err := nc.Subscribe(r.prefix+".ready."+topic, func(msg *nats.Msg) {
		at := time.Now()
		d, err := client.ParseDelivery(msg)
		if err != nil {
			r.t.Error(err)
			return
		}
		_ = msg.Respond([]byte("+ACK")) // a lost one makes the job come again, which is counted
		mu.Lock()
		defer mu.Unlock()
		late = append(late, at.Sub(d.DueAt))
	}); err != nil {
		r.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
	n, began := int(while.Seconds()*float64(perSecond)), time.Now()
	tick := time.NewTicker(while / time.Duration(n))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		id := fmt.Sprintf("%s-%d-%d", topic, began.UnixMilli(), i)
		r.history.Pushing(id, time.Now())
		r.history.Finishing(id)
		if err := nc.Publish(r.prefix+".push."+topic, fmt.Appendf(nil, `{"id":%q,"delay":0.1}`, id)); err != nil {
			r.t.Fatal(err)
		}
	}
	testenv.Eventually(r.t, 20*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(late) >= n
	}, "all jobs of another topic come")
	nc.Close()
	slices.Sort(late)
	return latenesses{n: len(late), p50: late[n/2], p99: late[n*99/100], max: late[len(late)-1]}
}

// fill pushes n jobs in arrays, several at once; job gives the JSON of the i-th.
func (r *rig) fill(n int, job func(i int) string) {
	r.t.Helper()
	const each, callers = 1000, 4
	began := time.Now()
	var next atomic.Int64
	var filling sync.WaitGroup
	errs := make(chan error, callers)
	for range callers {
		filling.Go(func() {
			for {
				first := int(next.Add(each)) - each
				if first >= n {
					return
				}
				var jobs strings.Builder
				for i := first; i < min(first+each, n); i++ {
					jobs.WriteString("," + job(i))
				}
				msg, err := r.nc.Request(r.prefix+".push", []byte("["+jobs.String()[1:]+"]"), 20*time.Second)
				if err == nil && !strings.HasPrefix(string(msg.Data), `{"code":200,`) {
					err = errors.New(string(msg.Data[:min(len(msg.Data), 300)]))
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	filling.Wait()
	select {
	case err := <-errs:
		r.t.Fatal(err)
	default:
	}
	r.t.Logf("%d jobs are pushed in %v", n, time.Since(began).Round(time.Millisecond))
}

// However much waits, and whoever does not take it, jobs of other topics come in time.
func TestOthersAreInTime(t *testing.T) {
	t.Parallel()
	// A machine that does other things is late without any load too: that counts several times.
	const times = 10
	limit := 250 * time.Millisecond
	if testenv.RaceDetector { // which makes everything some ten times slower, on two cores that are full
		limit = 5 * time.Second
	}
	for name, load := range map[string]func(r *rig){
		"many ready jobs and a slow worker": func(r *rig) {
			const each = 20 * time.Millisecond
			if _, err := r.connect().Subscribe(r.prefix+".ready.heavy", func(msg *nats.Msg) {
				r.pause(each)
				_ = msg.Respond([]byte("+ACK")) // comes again if lost
			}); err != nil {
				r.t.Fatal(err)
			}
			r.fill(*backlog, func(i int) string { return fmt.Sprintf(`{"id":"heavy-%d","topic":"heavy","ttr":600}`, i) })
		},
		"topics without listeners": func(r *rig) {
			r.fill(10_000, func(i int) string { return fmt.Sprintf(`{"id":"silent-%d","topic":"silent.%d"}`, i, i) })
			r.t.Logf("while all are tried for the first time: %v", r.lateness(100, 3*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "no")
			p := r.serving("DQ_HTTP_ADDR=127.0.0.1:0", "DQ_SHUTDOWN_TIMEOUT=1s")
			alone := r.lateness(100, time.Second)
			load(r)
			late := r.lateness(100, 4*time.Second)
			t.Logf("%v; without the load %v; %v", late, alone, usageOf(t, p))
			if late.p99 > limit+times*alone.p99 {
				t.Errorf("others are late: %v; without the load %v", late, alone)
			}
			r.end(p)
		})
	}
}

// After an outage in which many jobs became due they go out at the pace of their windows, of each topic the oldest first,
// roughly; jobs of other topics that become due meanwhile are not late.
func TestOverdueJobsAfterAnOutage(t *testing.T) {
	t.Parallel()
	// On a busy machine all is slow; then others must still be in time long before the backlog is out.
	const limit, part, topics = 2 * time.Second, 4, 20
	r := newRig(t, "no")
	p := r.serving("DQ_SHUTDOWN_TIMEOUT=1s")
	jobs := *backlog
	lead := 5*time.Second + time.Duration(jobs)*100*time.Microsecond
	first := time.Now().Add(lead)
	due := func(i int) time.Time { return first.Add(time.Duration(i) * 2 * time.Second / time.Duration(jobs)) }
	r.fill(jobs, func(i int) string {
		return fmt.Sprintf(`{"id":"over-%d","topic":"over.%d","at":%q,"ttr":600}`, i, i%topics, due(i).UTC().Format(time.RFC3339Nano))
	})
	if time.Now().After(first) {
		t.Fatal("the jobs are due before all are pushed")
	}
	p.Kill()
	r.pause(time.Until(due(jobs)) + 5500*time.Millisecond)

	var mu sync.Mutex
	order, left := make([][]int, topics), jobs
	drained := make(chan struct{})
	worker := r.connect()
	if _, err := worker.Subscribe(r.prefix+".ready.over.*", func(msg *nats.Msg) {
		_ = msg.Respond([]byte("+ACK")) // comes again if lost, which is counted
		i, err := strconv.Atoi(strings.TrimPrefix(msg.Header.Get("Dq-Id"), "over-"))
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		order[i%topics] = append(order[i%topics], i/topics)
		if left--; left == 0 {
			close(drained)
		}
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := r.serving("DQ_SHUTDOWN_TIMEOUT=1s")
	late := r.lateness(100, 2*time.Second)
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	select {
	case <-drained:
	case <-ctx.Done():
		t.Fatal("not all jobs are delivered")
	}
	took := time.Since(began)
	t.Logf("%d overdue jobs are delivered in %v; others meanwhile: %v", jobs, took.Round(time.Millisecond), late)
	if late.p99 > max(limit, took/part) {
		t.Errorf("others are late: %v", late)
	}
	mu.Lock()
	defer mu.Unlock()
	furthest := 0
	for _, positions := range order {
		for at, rank := range positions {
			furthest = max(furthest, at-rank, rank-at)
		}
	}
	t.Logf("the job that was furthest from its place in the order of its topic was %d of %d places off", furthest, jobs/topics)
	if furthest > 3000 {
		t.Errorf("a job was %d places off in the order of its topic", furthest)
	}
	r.end(next)
}
