package delay

import (
	"strconv"
	"testing"
	"time"
)

// TestBacklogIsTold: a full batch tells how many are due still, and when the first that is not will be.
func TestBacklogIsTold(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	const rest = 44
	jobs := make([]Job, promoteBatch+rest)
	for i := range jobs {
		jobs[i] = Job{ID: strconv.Itoa(i), Topic: "t", Delay: 10 * ms}
	}
	for _, p := range w.stores[0].Push(t.Context(), append(jobs, Job{ID: "later", Topic: "t", Delay: 50 * ms})) {
		if p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	w.step(10 * ms)
	for _, want := range []struct {
		more int
		next time.Duration
	}{{rest, 40 * ms}, {0, 40 * ms}, {0, 40 * ms}} {
		p, err := w.stores[0].Promote(t.Context(), 0, Offer{}, nil)
		if err != nil || p.More != want.more || p.Next != want.next {
			t.Errorf("%d more and %v to the next, error %v; want %+v", p.More, p.Next, err, want)
		}
	}
}

// TestBacklogPause: a deep backlog is not slowed down by the time that its batches take, a shallow one is.
func TestBacklogPause(t *testing.T) {
	t.Parallel()
	ticker := &ticker{store: &Store{buckets: make([]bucketKeys, 8)}}
	for _, row := range []struct {
		batch, more int
		took, want  time.Duration
	}{
		{promoteBatch, 1, 0, 32 * ms},
		{promoteBatch, deepBacklog*promoteBatch - 1, 10 * ms, 32 * ms},
		{promoteBatch, deepBacklog * promoteBatch, 10 * ms, 10 * ms},
		{promoteBatch, deepBacklog * promoteBatch, 30 * ms, 0},
		{offeredBatch, 1, 10 * ms, 16 * ms},
		{offeredBatch, deepBacklog * offeredBatch, 4 * ms, 6 * ms},
	} {
		if got := ticker.backlogPause(row.batch, row.more, row.took); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}
