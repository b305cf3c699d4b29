package whole_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Replicas that stood still for longer than leases, TTRs and slots last wake up in a world that went on without them.
func TestFrozenReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	r.patience = 9 * time.Second // a push that a frozen replica took is answered after all
	replicas := []*testenv.Process{r.serving(), r.serving(), r.serving()}
	r.workers(4, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 5) {
			return
		}
		r.ackSync(d)
	})
	const frozen = 7500 * time.Millisecond
	stop := r.flow(200, r.once(mixed(time.Second, "2s")))
	r.pause(time.Second)
	replicas[0].Signal(syscall.SIGSTOP)
	r.pause(time.Second)
	replicas[1].Signal(syscall.SIGSTOP)
	r.pause(2 * time.Second)
	replicas = append(replicas, r.replica()) // takes the slot of one of them
	r.pause(frozen - 3*time.Second)
	replicas[0].Signal(syscall.SIGCONT)
	r.pause(time.Second)
	replicas[1].Signal(syscall.SIGCONT)
	r.pause(500 * time.Millisecond)
	stop()
	r.landed()
	r.settled(30 * time.Second)
	r.end(replicas...)
}

// The same in the middle of a burst, where a replica is most of the time between the lease of a job and the moment
// when NATS has its message: what the frozen one had leased is delivered and finished by the other meanwhile.
func TestFrozenInABurst(t *testing.T) {
	t.Parallel()
	const jobs, frozen = 3000, 7500 * time.Millisecond
	r := newRig(t, "everysec")
	r.patience = startWithin
	replicas := []*testenv.Process{r.serving(), r.serving()}
	r.workers(1, r.ackSync)
	due := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	for i := range jobs {
		job := mixed(0, "60s")(i)
		job.Delay, job.At = "", client.Value(due.UTC().Format(time.RFC3339Nano))
		r.history.Pushing(job.ID, due)
		r.pushing.Go(func() { r.push(job) })
	}
	r.landed()
	testenv.Eventually(t, 20*time.Second, func() bool {
		_, delivered := r.history.Count()
		return delivered > 100
	}, "deliveries")
	replicas[0].Signal(syscall.SIGSTOP)
	_, delivered := r.history.Count()
	t.Logf("replica 0 is frozen at %s, %d delivered", time.Now().Format("15:04:05.000"), delivered)
	r.pause(frozen)
	t.Logf("replica 0 goes on at %s", time.Now().Format("15:04:05.000"))
	replicas[0].Signal(syscall.SIGCONT)
	r.pause(time.Second)
	r.settled(30 * time.Second)
	r.end(replicas...)
}
