package whole_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A dozen replicas start at the same moment, beside the one that is there, and are killed at the same moment: the one that
// is left, and what comes after, has all.
func TestDozenOfReplicas(t *testing.T) {
	t.Parallel()
	const dozen = 12
	r := newRig(t, "everysec")
	first := r.serving()
	r.workers(2, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 5) {
			return
		}
		r.ackSync(d)
	})
	stop := r.flow(150, r.once(mixed(2*time.Second, "2s")))
	for range 2 {
		replicas := make([]*testenv.Process, dozen)
		for i := range replicas {
			replicas[i] = r.replica()
		}
		for _, p := range replicas {
			p.WaitFor("bridge serves", startWithin)
		}
		r.recovers()
		for _, p := range replicas {
			p.Signal(syscall.SIGKILL) // all at once; Kill would wait for each
		}
		r.recovers()
		r.pause(500 * time.Millisecond)
	}
	stop()
	r.landed()
	r.settled(30 * time.Second)
	r.end(first)
}
