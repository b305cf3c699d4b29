package delay

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// watched is a bucket with two replicas, and a clock that stands still between its steps.
type watched struct {
	t      *testing.T
	server *miniredis.Miniredis
	at     time.Time
	stores [2]*Store
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, server: miniredis.RunT(t), at: time.UnixMilli(1_700_000_000_000)}
	for i := range w.stores {
		client := redis.NewClient(&redis.Options{Addr: w.server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		w.stores[i] = NewStore(client, StoreOptions{Prefix: "w", Buckets: 1, MaxDelay: time.Hour})
	}
	w.step(0)
	return w
}

func (w *watched) step(by time.Duration) {
	w.at = w.at.Add(by)
	w.server.SetTime(w.at)
}

// push checks whether the replica that pushes a job keeps the watch from now on.
func (w *watched) push(replica int, id string, delay time.Duration, watches bool) {
	w.t.Helper()
	p := w.stores[replica].Push(w.t.Context(), []Job{{ID: id, Topic: "t", TTR: 300 * time.Millisecond, Delay: delay}})[0]
	if p.Err != nil || p.Watch != watches {
		w.t.Fatalf("push of %s by replica %d: %+v", id, replica, p)
	}
}

// promote checks how long a replica may sleep after it looked, and how many topics have new ready jobs.
func (w *watched) promote(replica int, next time.Duration, topics int) {
	w.t.Helper()
	p, err := w.stores[replica].Promote(w.t.Context(), 0, Offer{}, nil)
	if err != nil || p.Next != next && (p.Next >= 0 || next >= 0) || len(p.Topics) != topics {
		w.t.Fatalf("replica %d: %+v %v, it should sleep for %v", replica, p, err, next)
	}
}

const (
	ms = time.Millisecond
	// nobody is the sleep of a replica that need not wake for anything.
	nobody time.Duration = -1
	// grace is how much later than the other replica one looks.
	grace = 400 * ms
)

// TestWatch: one replica looks for what is due within the next second, the others leave that to it, and one that does not
// look in time has lost it.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	for replica := range w.stores {
		w.promote(replica, nobody, 0) // from now on each knows which watch it keeps: none
	}
	w.push(0, "far", 5*time.Second, false)
	w.push(0, "a", 400*ms, true)
	w.promote(1, 400*ms+grace, 0)
	w.promote(0, 400*ms, 0)
	w.push(1, "later", 500*ms, false)
	w.push(1, "first", 200*ms, true) // before the moment that replica 0 looks at
	w.promote(0, 200*ms+grace, 0)
	w.promote(1, 200*ms, 0)
	w.step(200 * ms)
	w.promote(1, 200*ms, 1)
	w.promote(0, 200*ms+grace, 0)
	w.step(201 * ms) // replica 1 does not look
	w.promote(0, 99*ms, 1)
	w.promote(1, 99*ms+grace, 0)
	w.step(99 * ms)
	w.promote(0, 4500*ms, 1) // so far ahead each replica knows what is due
	w.promote(1, 4500*ms, 0)
}

// TestWatchOfDeadlines: what is in flight is watched for as what is delayed.
func TestWatchOfDeadlines(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.promote(0, nobody, 0)
	w.promote(1, nobody, 0)
	w.push(0, "a", 0, false)
	reserved, err := w.stores[0].Reserve(t.Context(), "0.x", [][]Want{{{Topic: "t", N: 1}}})
	if err != nil || len(reserved[0].Topics[0].Deliveries) != 1 {
		t.Fatal(reserved, err)
	}
	w.promote(1, LeaseTime, 0)
	lease := reserved[0].Topics[0].Deliveries[0].Lease
	lease.TTR = 300 * ms
	if done, err := w.stores[0].Confirm(t.Context(), []Lease{lease}); err != nil || !done[0] {
		t.Fatal(done, err)
	}
	w.promote(0, 300*ms, 0)
	w.promote(1, 300*ms+grace, 0)
	w.step(300 * ms)
	w.promote(0, nobody, 1)
}

// TestWatchIsGivenUp: one that leaves keeps no watch any more, and takes none.
func TestWatchIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.promote(0, nobody, 0)
	w.promote(1, nobody, 0)
	w.push(0, "a", 300*ms, true)
	w.promote(1, 300*ms+grace, 0)
	if err := w.stores[0].Retire(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.promote(0, nobody, 0)
	w.promote(1, 300*ms, 0)
	w.step(300 * ms)
	w.promote(1, nobody, 1)
}

// TestWatchIsForgotten: a replica whose call had no answer does not know what it promised, and looks by itself.
func TestWatchIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.promote(0, nobody, 0)
	w.push(1, "a", 300*ms, true)
	w.promote(0, 300*ms+grace, 0)
	w.server.SetError("LOADING it is being tried")
	if _, err := w.stores[0].Promote(t.Context(), 0, Offer{}, nil); err == nil {
		t.Fatal("there was an answer")
	}
	w.server.SetError("")
	w.promote(0, 300*ms, 0)
}
