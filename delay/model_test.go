package delay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// unit is the model's step of time: so long that the real time a run takes does not matter beside it.
const unit = 1000 * time.Second

// modelJob is a job as the model sees it.
type modelJob struct {
	job      Job
	state    State
	first    int  // unit: the due time that counts for its expiry
	due      int  // unit
	moved    bool // its due time is not that of the push any more
	deadline int  // unit, in flight
	push     uint64
	token    uint64 // of the last delivery
	leased   bool
	ahead    bool // leased before it was due
	released bool // the last delivery ended by a release
	buried   bool // the job died by a bury
	n        int
}

func (j *modelJob) String() string {
	if j == nil {
		return "none"
	}
	return fmt.Sprintf("{%q %s due %d deadline %d push %d token %d leased %v ahead %v released %v n %d of %d}", j.job.ID, j.state, j.due,
		j.deadline, j.push, j.token, j.leased, j.ahead, j.released, j.n, j.job.MaxAttempts)
}

// model is the store in Go: one map, no index, no counter.
type model struct {
	now  int
	jobs map[string]*modelJob
	// acks are all deliveries ever made.
	acks []Ack
	// sent are the jobs that came from the stream, each with the sequence of its message; seen are the marks of those that
	// the store must know.
	sent     []Job
	lastSent uint64
	seen     map[string]uint64
}

func (m *model) ids() []string {
	ids := make([]string, 0, len(m.jobs))
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// late reports whether a job is too late for its first delivery: expiries are half a unit more than whole ones.
func (j *modelJob) late(now int) bool {
	return j.n == 0 && j.job.Expires > 0 && now-j.first > int(j.job.Expires/unit)
}

// early reports whether a job is leased and not due yet.
func (j *modelJob) early(now int) bool {
	return j.state == InFlight && j.leased && j.ahead && j.due > now
}

// end is what happens to a job whose confirmed delivery is over.
func (j *modelJob) end(now, pause int, pauseGiven bool) {
	if j.job.MaxAttempts > 0 && j.n >= j.job.MaxAttempts {
		j.state = Dead
		return
	}
	if !pauseGiven {
		pause = 0
		if len(j.job.Backoff) > 0 {
			pause = int(j.job.Backoff[min(j.n, len(j.job.Backoff))-1] / unit)
		}
	}
	if pause > 0 {
		j.state, j.due = Delayed, now+pause
		return
	}
	j.state = Ready
}

func (m *model) promote() {
	for _, j := range m.jobs {
		switch {
		case j.state == Delayed && j.due <= m.now && j.late(m.now):
			j.state = Dead
		case j.state == Delayed && j.due <= m.now:
			j.state = Ready
		case j.state == InFlight && j.deadline <= m.now && j.leased:
			j.state, j.leased = Ready, false
		case j.state == InFlight && j.deadline <= m.now:
			j.end(m.now, 0, false)
		}
	}
}

var (
	modelIDs    = []string{"a", "b b", "c:{}", "ä", "01930000-0000-7000-8000-000000000001", "x y z"}
	modelTopics = []string{"t", "mail.eu", "m3"}
)

// Check holds the store against the model after every step.
func (m *storeMachine) Check(t *rapid.T) {
	snap, err := audit(m.ctx, m.client, m.store)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.faults) > 0 {
		t.Fatalf("faults: %q", snap.faults)
	}
	if len(snap.records) != len(m.model.jobs) {
		t.Fatalf("store has %d jobs, model %v", len(snap.records), m.model.ids())
	}
	for id, j := range m.model.jobs {
		states := snap.states[packID(id)]
		if len(states) != 1 || states[0] != j.state {
			t.Fatalf("job %q is %v, model %v", id, states, j)
		}
	}
	m.checkSeen(t)
}

func TestStoreKeepsToItsModel(t *testing.T) {
	t.Parallel()
	checkModel(t, testenv.SharedRedis(t).Client())
}

// The in-memory stand-in of `dqbridge dev` is held to the same model.
func TestStandInKeepsToTheModel(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	checkModel(t, client)
}

// On a cluster each bucket is on one of its nodes, and no script may touch a key of another.
func TestClusterKeepsToTheModel(t *testing.T) {
	t.Parallel()
	checkModel(t, testenv.NewRedisCluster(t, 3).Client())
}

func checkModel(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := newStoreMachine(t, client, fmt.Sprintf("%s-%d", testenv.Prefix(t), run))
		rt.Repeat(rapid.StateMachineActions(m))
		keys, err := keysOf(t.Context(), client, m.store.space.prefix+":*")
		if err != nil {
			rt.Fatal(err)
		}
		if len(keys) > 0 {
			client.Del(t.Context(), keys...)
		}
	})
}

// keysOf lists keys, of a cluster those of all its nodes.
func keysOf(ctx context.Context, client redis.UniversalClient, pattern string) ([]string, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return client.Keys(ctx, pattern).Result()
	}
	var mu sync.Mutex
	var all []string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	})
	return all, err
}
