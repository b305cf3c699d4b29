package whole_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A window opens again when its deliveries are settled, also where the replica was not told: the note of another
// replica is lost with the link, or goes to the slot that it had before. The TTR is far too long to wait for.
func TestWindowOpensAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(r *rig, p *testenv.Process, proxy *testenv.Proxy) (settle func(finish func())){
		"after a lost link": func(r *rig, _ *testenv.Process, proxy *testenv.Proxy) func(func()) {
			other := r.serving()
			return func(finish func()) {
				proxy.Cut()
				r.pause(200 * time.Millisecond)
				finish()
				proxy.Heal()
				r.pause(1500 * time.Millisecond) // it connects again
				r.end(other)
			}
		},
		"after a lost slot": func(r *rig, p *testenv.Process, _ *testenv.Proxy) func(func()) {
			return func(finish func()) {
				p.Signal(syscall.SIGSTOP)
				r.pause(2500 * time.Millisecond)
				other := r.serving()
				p.Signal(syscall.SIGCONT)
				p.WaitFor("slot was lost", 10*time.Second)
				finish()
				r.end(other)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window = 10
			r := newRig(t, "no")
			proxy := testenv.NewProxy(t, r.nats.Addr())
			p := r.serving("DQ_NATS_URL=nats://"+proxy.Addr(), fmt.Sprintf("DQ_MAX_INFLIGHT=%d", window))
			out := make(chan delivery, 2*window)
			r.workers(1, r.into(out))
			job := mixed(0, "10m")
			for i := range window {
				r.insist(job(3 * i)) // of one topic
			}
			var ids []string
			for range window {
				ids = append(ids, r.next(out).ID)
			}
			r.pause(300 * time.Millisecond) // until the deliveries are certain
			settle := test(r, p, proxy)
			settle(func() {
				for _, id := range ids {
					r.finishByID(id)
				}
			})
			r.insist(job(3 * window))
			began := time.Now()
			r.ack(r.next(out))
			t.Logf("the next job was delivered after %v", time.Since(began).Round(time.Millisecond))
			r.settled(5 * time.Second)
			r.end(p)
		})
	}
}

// finishByID finishes until it is confirmed.
func (c *clients) finishByID(id string) {
	c.t.Helper()
	testenv.Eventually(c.t, 10*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		c.history.Finishing(id)
		_, err := c.client.Finish(ctx, id)
		return err == nil
	}, "a finish is confirmed")
	c.history.Finished(id)
}
