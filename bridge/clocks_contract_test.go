package bridge_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// hostClock is the clock of a host: off by something that changes while the bridge runs, as one that is set anew. It has
// no monotonic part, so it is worse than what a process meets: differences over a step are wrong by it.
type hostClock struct{ off atomic.Int64 }

func (c *hostClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.off.Load())) }

func (c *hostClock) set(off time.Duration) { c.off.Store(int64(off)) }

// TestHostClocksOff: clocks of bridge hosts that are an hour ahead or behind, and steps of them in the middle of the work,
// change nothing: due times, TTRs and leases are Redis's.
func TestHostClocksOff(t *testing.T) {
	t.Parallel()
	const ttr, late = 2*time.Second - heard, 8 * time.Second // late is of a busy machine; the clocks are an hour off
	for name, step := range map[string]time.Duration{"all the time": 0, "one is set ahead": time.Hour, "one is set back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) { s.idle = true })
			if step != 0 {
				r.history.allowRepeats() // what was out at the step is not taken for delivered
			}
			clocks := [3]hostClock{}
			for i, off := range []time.Duration{-time.Hour, 0, time.Hour} {
				clocks[i].set(off)
				r.main = r.start(t, func(s *setup) { s.Now = clocks[i].now })
			}
			w := r.handle(t, "t", func(d *delivery) {
				if d.attempt() > 1 {
					_ = d.Ack()
				}
			})
			began := time.Now()
			const jobs = 120
			for i := range jobs {
				p := r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":%q,"ttr":2}`, i, fmt.Sprintf("%dms", 500+i*10)))
				want := time.Now().Add(time.Duration(500+i*10) * time.Millisecond)
				if off := p.DueAt.Sub(want).Abs(); off > late {
					t.Fatalf("job %d is due %v off", i, off)
				}
				if i == jobs/2 && step != 0 {
					clocks[1].set(step)
				}
			}
			w.await(t, 2*jobs)
			r.emptied(t)
			last := map[string]time.Time{}
			for _, d := range w.all() {
				if before, again := last[d.id()]; !again {
					if by := d.at.Sub(d.due()); by > late {
						t.Errorf("%s comes %v late", d.id(), by)
					}
				} else if after := d.at.Sub(before); d.attempt() > 1 && (after < ttr || after > ttr+late) {
					t.Errorf("%s comes again after %v, its TTR is %v", d.id(), after, ttr)
				}
				last[d.id()] = d.at
			}
			t.Logf("%d jobs and their redeliveries took %v", jobs, time.Since(began).Round(time.Millisecond))
			for i, b := range r.started {
				if status, body := b.get(t, "/readyz"); status != 200 {
					t.Errorf("bridge %d: /readyz: %d %s", i, status, body)
				}
				if n := b.metric(t, "dqbridge_errors_total"); step == 0 && n != 0 {
					t.Errorf("bridge %d counts %v errors", i, n)
				}
			}
		})
	}
}

// leapingClock leaps ahead in the middle of a batch once it was told to: for the bridge that is a process that was stopped
// between two publishes.
type leapingClock struct {
	hostClock
	left atomic.Int64 // publishes until the leap; negative: none is asked for
}

func (c *leapingClock) now() time.Time {
	pc, _, _, _ := runtime.Caller(1)
	if strings.HasSuffix(runtime.FuncForPC(pc).Name(), "(*dispatcher).publish") && c.left.Add(-1) == 0 {
		c.off.Add(int64(delay.LeaseTime))
	}
	return c.hostClock.now()
}

// TestStoppedInABatch: what waits to be sent when a batch has become too old is not sent any more: another replica may have
// delivered it meanwhile, and its worker have finished it.
func TestStoppedInABatch(t *testing.T) {
	t.Parallel()
	const batch, leaps = 100, 8
	clock := leapingClock{}
	clock.left.Store(-1)
	r := newRig(t, func(s *setup) { s.buckets, s.Now = 1, clock.now })
	r.history.allowRepeats()
	r.handle(t, "t", func(d *delivery) { _ = d.Ack() }) // lost where nobody listens at that moment
	for leap := range leaps {
		lost := r.main.link.Stats().Reconnects
		jobs := make([]string, batch)
		for i := range jobs {
			jobs[i] = fmt.Sprintf(`{"id":"%d-%d","topic":"t","delay":0.3,"ttr":1}`, leap, i)
		}
		r.ask(t, r.msg("push", "["+strings.Join(jobs, ",")+"]"))
		clock.left.Store(batch / 2)
		link := r.main.link
		testenv.Eventually(t, patience, func() bool { return link.Stats().Reconnects > lost && link.FlushTimeout(patience) == nil },
			"the connection with the rest of the batch is given up")
	}
	r.emptied(t)
}
