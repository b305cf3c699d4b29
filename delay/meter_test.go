package delay

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// heard is a Meter that remembers, and a clock that goes on by a second with each look.
type heard struct {
	mu    sync.Mutex
	looks int
	calls []measured
}

type measured struct {
	script string
	jobs   int
	took   time.Duration
}

func (h *heard) Called(script string, jobs int, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, measured{script, jobs, took})
}

func (h *heard) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	return time.Unix(int64(h.looks), 0)
}

// TestMeter: one call is told for each round trip, with all the jobs in it.
func TestMeter(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 2, MaxDelay: time.Hour})
	h := &heard{}
	store.watch(h, h.now)
	store.Push(t.Context(), []Job{{ID: "a", Topic: "t"}, {ID: "b", Topic: "t"}, {ID: "c", Topic: "t"}})
	store.Finish(t.Context(), []Ack{{ID: "a"}, {ID: "b"}})
	if _, err := store.Promote(t.Context(), 0, Offer{}, nil); err != nil {
		t.Fatal(err)
	}
	want := []measured{{"push", 3, time.Second}, {"finish", 2, time.Second}, {"promote", 0, time.Second}}
	if !slices.Equal(h.calls, want) {
		t.Errorf("heard of %v, should be %v", h.calls, want)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, time.Now) // it is not started, so all that is added waits
	for _, o := range []*order{
		{verb: verbPush, job: &Job{Body: make([]byte, queueBytes/4)}}, {verb: verbFinish}, {verb: verbTouch},
	} {
		if err := w.add(o); err != nil {
			t.Fatal(err)
		}
	}
	got := w.load()
	if got.Pushes != 1 || got.Verbs != 2 || got.PushFill < 0.25 || got.PushFill > 0.26 || got.VerbFill != 2.0/queueAcks {
		t.Errorf("load %+v", got)
	}
}

func TestFullerMemory(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ a, b, want Memory }{
		{Memory{}, Memory{Used: 5}, Memory{Used: 5}},
		{Memory{Used: 9}, Memory{Used: 5}, Memory{Used: 9}},
		{Memory{Used: 9}, Memory{Used: 5, Max: 100}, Memory{Used: 5, Max: 100}},
		{Memory{Used: 5, Max: 10}, Memory{Used: 50, Max: 1000}, Memory{Used: 5, Max: 10}},
		{Memory{Used: 5, Max: 100}, Memory{Used: 50, Max: 60}, Memory{Used: 50, Max: 60}},
		{Memory{Used: 5, Max: 10}, Memory{Used: 50}, Memory{Used: 5, Max: 10}},
	} {
		if got := fuller(row.a, row.b); got != row.want {
			t.Errorf("of %v and %v it is %v, should be %v", row.a, row.b, got, row.want)
		}
	}
}
