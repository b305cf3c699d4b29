package whole_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// moments are where a request is when the replica that sent it is killed.
var moments = map[string]testenv.Moment{"unsent": testenv.BeforeRequest, "unanswered": testenv.BeforeReply}

// nth catches the n-th request of all, whatever it is.
func (c *crash) nth(at testenv.Moment, n int) <-chan struct{} {
	seen := 0
	return c.proxy.Catch(at, func(words []string) bool {
		if seen++; seen == n {
			c.t.Logf("request %d is %s %s", n, words[0], c.scripts.name(words))
		}
		return seen == n
	})
}

// A replica is killed at the n-th request of its life, on a store that nobody has used before: the next one serves.
func TestKilledAtItsStart(t *testing.T) {
	t.Parallel()
	const most = 12
	for name, at := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			c.workers(1, c.ackSync)
			for n := 1; n <= most; n++ {
				c.strike()
				c.redis.Client().FlushAll(c.ctx)
				caught := c.nth(at, n)
				c.victim = c.replica(c.behind()...)
				c.kill(caught)
				c.start()
				job := c.job(n, "", "60s")
				c.insist(job)
				testenv.Eventually(t, slack, func() bool { return c.history.IsFinished(job.ID) }, "a job is finished")
			}
			c.settled(5 * time.Second)
		})
	}
}

// A replica is killed at the n-th request to Redis from a push on. The push is repeated until it is confirmed, and each
// job comes, whatever was stored before.
func TestKilledInAPush(t *testing.T) {
	t.Parallel()
	const most = 8
	for name, at := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			c.patience = 500 * time.Millisecond
			c.workers(1, c.ackSync)
			for n := 1; n <= most; n++ {
				caught := c.nth(at, n)
				job := c.job(n, late, "60s")
				job.ID = fmt.Sprintf("push-%d", n)
				c.pushing.Go(func() { c.insist(job) })
				c.kill(caught)
				c.start()
				c.landed()
			}
			report := c.settled(15 * time.Second)
			if report.Pushed != most || report.Delivered != most {
				t.Errorf("want %d jobs, each once: %s", most, report.String())
			}
		})
	}
}

// The same from the moment on when jobs are due: at the latest when the leases are over, another replica goes on.
func TestKilledInADelivery(t *testing.T) {
	t.Parallel()
	const most = 20
	for n := range most {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			t.Parallel()
			for name, at := range moments {
				t.Run(name, func(t *testing.T) {
					c := newCrash(t)
					c.workers(1, c.ackSync)
					due := time.Now().Add(time.Second)
					c.pushAt(due, 5*time.Millisecond, "4s")
					c.pause(time.Until(due) - 10*time.Millisecond)
					c.kill(c.nth(at, n+1))
					killed := time.Now()
					c.succeed()
					testenv.Eventually(t, lease+slack, c.delivered, "all deliveries")
					t.Logf("all are delivered %v after the kill", time.Since(killed).Round(time.Millisecond))
					c.settled(15 * time.Second)
				})
			}
		})
	}
}
