package whole_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A Redis that is full refuses pushes with its reason. What is stored is delivered and finished all the same, and so it
// drains; with more memory all is as before.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, "no")
	replicas := []*testenv.Process{r.serving(), r.serving()}
	r.workers(2, r.ackSync)
	body := []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	stop := r.flow(300, r.once(func(i int) client.Job {
		job := mixed(3*time.Second, "10s")(i)
		job.Body = body
		return job
	}))
	r.recovers()
	full := time.Now()
	r.limitMemory(r.usedMemory() + 2<<20)
	testenv.Eventually(t, 15*time.Second, func() bool { return r.refused.Load() > 100 }, "refused pushes")
	r.pause(2 * time.Second)
	r.limitMemory(1)
	r.pause(time.Second)
	stop()
	r.landed()
	report := r.settled(15 * time.Second)
	if !r.refusedFor("OOM") || report.Repeated+report.Redelivered > 0 {
		t.Errorf("%d pushes are refused: %s", r.refused.Load(), report.String())
	}
	r.limitMemory(0)
	end := time.Now()
	job := mixed(100*time.Millisecond, "10s")
	stop = r.flow(100, r.once(func(i int) client.Job {
		job := job(i)
		job.ID = "after-" + job.ID
		return job
	}))
	r.recovered(full, end)
	stop()
	r.landed()
	r.settled(5 * time.Second)
	r.end(replicas...)
}

func (r *rig) limitMemory(bytes int) {
	r.t.Helper()
	if err := r.redis.Client().ConfigSet(r.ctx, "maxmemory", strconv.Itoa(bytes)).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) usedMemory() int {
	r.t.Helper()
	used, err := strconv.Atoi(r.redis.Client().InfoMap(r.ctx, "memory").Item("Memory", "used_memory"))
	if err != nil {
		r.t.Fatal(err)
	}
	return used
}
