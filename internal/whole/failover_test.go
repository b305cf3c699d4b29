package whole_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// undone is how long after its confirmation a finish may turn out to be undone by a failover: the contract says so.
const undone = time.Minute

// work takes all jobs; a fifth of them only at the second attempt.
func (r *rig) work() {
	r.t.Helper()
	r.reads, r.wire = true, undone
	r.history.StoreUndoes()
	r.workers(3, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 5) {
			return
		}
		r.ackSync(d)
	})
}

// recoversFrom logs how long after began pushes are confirmed again, in all buckets.
func (r *rig) recoversFrom(fault string, began time.Time) {
	r.t.Helper()
	for i, confirmed := 0, 0; confirmed < 16 && r.pause(10*time.Millisecond); i++ {
		// Each one is new: one that was stored and undone would be due at another time when it is pushed again.
		if r.pushOnce(client.Job{ID: fmt.Sprintf("after %s at %d: %d", fault, began.UnixNano(), i), Topic: "probe", TTR: "2s"}) {
			confirmed++
		}
	}
	r.t.Logf("%s: all buckets take pushes again after %v", fault, time.Since(began).Round(10*time.Millisecond))
}

// A job that was confirmed survives its master where a replica had to have it.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	group := testenv.NewRedisSentinel(t, 2, "--appendonly", "yes")
	r := newGroupRig(t, group.URL(), func() []*testenv.RedisServer { return []*testenv.RedisServer{group.Master()} })
	replicas := []*testenv.Process{r.serving("DQ_REDIS_WAIT_REPLICAS=1"), r.serving("DQ_REDIS_WAIT_REPLICAS=1")}
	r.work()
	stop := r.flow(150, r.once(mixed(2*time.Second, "2s")))
	r.pause(time.Second)
	for _, fault := range []struct {
		name string
		make func(master *testenv.RedisServer) func()
	}{
		{"killed master", func(master *testenv.RedisServer) func() { master.Kill(); return master.Restart }},
		{"failover in order", func(*testenv.RedisServer) func() { group.Failover(); return func() {} }},
		{"frozen master", func(master *testenv.RedisServer) func() { master.Stop(); return master.Cont }},
	} {
		began := time.Now()
		mend := fault.make(group.Master())
		r.recoversFrom(fault.name, began)
		mend()
		r.pause(time.Second)
	}
	stop()
	r.landed()
	r.settled(30 * time.Second)
	r.end(replicas...)
}

// What no replica had is lost with its master: this is what DQ_REDIS_WAIT_REPLICAS is for.
func TestUnreplicatedPushes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		wait string
		lost bool
	}{
		"lost where nobody waits":       {"0", true},
		"not confirmed where one waits": {"1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 20
			group := testenv.NewRedisSentinel(t, 1, "--appendonly", "yes")
			master, other := group.Nodes[0], group.Nodes[1]
			r := newGroupRig(t, group.URL(), func() []*testenv.RedisServer { return []*testenv.RedisServer{group.Master()} })
			p := r.serving("DQ_REDIS_WAIT_REPLICAS=" + row.wait)
			r.work()
			r.insist(mixed(0, "2s")(0))
			// A replica that is frozen for a moment has nothing of what comes now, and is promoted all the same.
			other.Stop()
			for i := range jobs {
				job := mixed(0, "2s")(1 + i)
				job.Delay = "20s"
				r.pushing.Go(func() { r.once(func(int) client.Job { return job })(0) })
			}
			r.pushing.Wait()
			master.Kill()
			other.Cont()
			testenv.Eventually(t, 30*time.Second, func() bool { return group.Master() == other }, "the replica is promoted")
			master.Restart() // as its replica
			r.insist(client.Job{ID: "after", Topic: "probe", TTR: "2s"})
			confirmed, _ := r.history.Count()
			r.pause(onWire)
			report := r.history.Check(r.wire)
			lost := len(slices.DeleteFunc(report.Faults, func(f whole.Fault) bool { return f.Kind != whole.Lost }))
			t.Logf("%d of %d confirmed, %d lost", confirmed-2, jobs, lost)
			if row.lost && lost != jobs || !row.lost && (lost != 0 || confirmed != 2) {
				t.Errorf("lost %d of %d confirmed", lost, confirmed-2)
			}
			r.end(p)
		})
	}
}

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	group := testenv.NewRedisCluster(t, 3, "--appendonly", "yes")
	r := newClusterRig(t, group)
	replicas := []*testenv.Process{r.serving("DQ_REDIS_WAIT_REPLICAS=1"), r.serving("DQ_REDIS_WAIT_REPLICAS=1")}
	r.work()
	stop := r.flow(150, r.once(mixed(2*time.Second, "2s")))
	r.pause(time.Second)
	for i := range 2 {
		master, other := group.Masters[i], group.Replicas[i]
		began := time.Now()
		master.Kill()
		testenv.Eventually(t, 20*time.Second, func() bool { return isMaster(t, other) }, "the replica is promoted")
		t.Logf("promoted after %v", time.Since(began).Round(10*time.Millisecond))
		master.Restart() // as the replica without which no push is confirmed
		r.recoversFrom("killed master", began)
		r.pause(time.Second)
	}
	stop()
	r.landed()
	r.settled(30 * time.Second)
	r.end(replicas...)
}

// A slot is moved while its bucket works: its keys are on both sides for a while, and scripts are stopped in their middle.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	group := testenv.NewRedisCluster(t, 3, "--appendonly", "yes")
	r := newClusterRig(t, group)
	replicas := []*testenv.Process{r.serving(), r.serving()}
	r.work()
	stop := r.flow(200, r.once(mixed(2*time.Second, "2s")))
	r.pause(time.Second)
	const buckets, pages = 8, 4
	for b := range buckets {
		from, slot := group.Owner(fmt.Sprintf("%s:{%d}:pool", r.prefix, b))
		to := group.Masters[(slices.Index(group.Masters, from)+1)%len(group.Masters)]
		group.BeginMove(slot, from, to)
		for range pages {
			group.MoveKeys(slot, 2, from, to)
			r.pause(50 * time.Millisecond)
		}
		for group.MoveKeys(slot, 100, from, to) > 0 { // until nothing new comes
			continue
		}
		group.EndMove(slot, from, to)
		r.pause(100 * time.Millisecond)
	}
	r.recoversFrom("moved slots", time.Now())
	stop()
	r.landed()
	r.settled(60 * time.Second)
	r.end(replicas...)
}

func newClusterRig(t *testing.T, group *testenv.RedisCluster) *rig {
	t.Helper()
	return newGroupRig(t, group.URL(), func() []*testenv.RedisServer {
		return slices.DeleteFunc(slices.Concat(group.Masters, group.Replicas), func(node *testenv.RedisServer) bool { return !isMaster(t, node) })
	})
}

func isMaster(t *testing.T, node *testenv.RedisServer) bool {
	t.Helper()
	info, err := node.Client().Info(t.Context(), "replication").Result()
	return err == nil && strings.Contains(info, "role:master")
}
