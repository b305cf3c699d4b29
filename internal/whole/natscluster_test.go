package whole_test

import (
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A cluster of three NATS servers loses one after the other under load. Replicas know all of them, pushers and workers
// begin on different ones and find the others as NATS clients do. What was on its way through the lost server comes again.
func TestNATSClusterLosesNodes(t *testing.T) {
	t.Parallel()
	const away, between = 1500 * time.Millisecond, 1200 * time.Millisecond
	nodes := testenv.NATSCluster(t, 3)
	r := newRigOn(t, nodes[0], "everysec")
	urls := "DQ_NATS_URL=" + nodes[0].URL() + "," + nodes[1].URL() + "," + nodes[2].URL()
	replicas := []*testenv.Process{r.serving(urls), r.serving(urls)}
	for _, node := range nodes[1:] {
		r.nats = node // where the next clients connect
		r.workers(2, func(d delivery) {
			if d.Attempt == 1 && share(d.ID, 5) {
				return
			}
			r.ackSync(d)
		})
	}
	stop := r.flow(200, r.once(mixed(2*time.Second, "2s")))
	r.pause(time.Second)
	for i, node := range nodes {
		node.Shutdown()
		lost := time.Now()
		r.recovers()
		t.Logf("node %d is lost: pushes are confirmed again after %v", i, time.Since(lost).Round(time.Millisecond))
		r.pause(away)
		node.Restart()
		testenv.Eventually(t, 10*time.Second, func() bool { return node.Joined(len(nodes)) }, "the server is in its cluster again")
		r.pause(between)
	}
	stop()
	r.landed()
	report := r.settled(30 * time.Second)
	if report.Pushed < 500 {
		t.Errorf("only %d pushes were confirmed", report.Pushed)
	}
	r.end(replicas...)
}
