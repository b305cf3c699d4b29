package bridge_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
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
