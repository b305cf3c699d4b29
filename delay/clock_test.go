package delay

import (
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A bucket's time goes on where Redis's clock goes back, and follows it where it goes forward.
func TestBucketTime(t *testing.T) {
	t.Parallel()
	type step struct {
		by    time.Duration // of Redis's clock
		came  time.Duration // how far the bucket's time comes with it
		ahead time.Duration
	}
	for name, steps := range map[string][]step{
		"forward":            {{time.Hour, time.Hour, 0}, {time.Second, time.Second, 0}},
		"a little back":      {{-500 * time.Millisecond, 0, 0}, {time.Second, 500 * time.Millisecond, 0}},
		"back":               {{-time.Hour, 0, time.Hour}, {64 * time.Second, 63 * time.Second, time.Hour - time.Second}},
		"back and right":     {{-time.Hour, 0, time.Hour}, {time.Hour, 0, 0}, {time.Second, time.Second, 0}},
		"back until it met":  {{-time.Minute, 0, time.Minute}, {65 * time.Minute, 64 * time.Minute, 0}, {time.Second, time.Second, 0}},
		"back, met and back": {{-time.Minute, 0, time.Minute}, {65 * time.Minute, 64 * time.Minute, 0}, {-time.Second / 2, 0, 0}},
		"back and back": {
			{-time.Hour, 0, time.Hour},
			{64 * time.Second, 63 * time.Second, time.Hour - time.Second},
			{-time.Hour, 0, 2*time.Hour - time.Second},
			{64 * time.Second, 63 * time.Second, 2*time.Hour - 2*time.Second},
		},
		"back and far forward": {{-time.Hour, 0, time.Hour}, {5 * time.Hour, 4 * time.Hour, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
			shift := time.Duration(0)
			store.shift = func() time.Duration { return shift }
			look := func() Promotion {
				t.Helper()
				p, err := store.Promote(t.Context(), 0, Offer{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			last := look()
			const slack = 300 * time.Millisecond // that the test itself takes
			for i, s := range steps {
				shift += s.by
				p := look()
				if came := p.Clock.Sub(last.Clock); came < s.came || came > s.came+slack {
					t.Errorf("step %d: the bucket's time came %v further, should be %v", i, came, s.came)
				}
				if d := p.Ahead - s.ahead; d < -slack || d > slack {
					t.Errorf("step %d: it is %v ahead, should be %v", i, p.Ahead, s.ahead)
				}
				last = p
			}
		})
	}
}

// What waits goes on to wait for as long as it was told, whatever Redis's clock does to the past.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
	shift := time.Duration(0)
	store.shift = func() time.Duration { return shift }
	push := func(id string, delay time.Duration) {
		t.Helper()
		if p := store.Push(t.Context(), []Job{{ID: id, Topic: "t", Delay: delay, TTR: 10 * time.Second}})[0]; p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	promoted := func() int {
		t.Helper()
		if _, err := store.Promote(t.Context(), 0, Offer{}, nil); err != nil {
			t.Fatal(err)
		}
		counts, err := store.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return int(counts.Ready)
	}
	push("before", 10*time.Second)
	shift = -time.Hour
	push("after", 10*time.Second)
	shift += 8 * time.Second
	if n := promoted(); n != 0 {
		t.Errorf("%d jobs are ready too early", n)
	}
	shift += 3 * time.Second
	if n := promoted(); n != 2 {
		t.Errorf("%d jobs are ready, should be both", n)
	}
	got, err := store.Reserve(t.Context(), "o", [][]Want{{{Topic: "t", N: 1}}})
	if err != nil || len(got[0].Topics[0].Deliveries) != 1 {
		t.Fatalf("reserve: %v, %v", got, err)
	}
	shift -= time.Hour
	if n := promoted(); n != 1 {
		t.Errorf("%d jobs are ready beside a lease", n)
	}
	shift += LeaseTime + time.Second
	if n := promoted(); n != 2 {
		t.Errorf("%d jobs are ready after a lease, should be both", n)
	}
}

func TestClockWatch(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	type look struct {
		asked, answered time.Duration // by the local clock
		bucket, ahead   time.Duration // by Redis
		jumped          time.Duration
	}
	for name, looks := range map[string][]look{
		"a steady clock":    {{0, 0, 0, 0, 0}, {time.Second, time.Second, time.Second, 0, 0}},
		"a slow answer":     {{0, 3 * time.Second, 0, 0, 0}, {4 * time.Second, 7 * time.Second, 7 * time.Second, 0, 0}},
		"a long pause":      {{0, 0, 0, 0, 0}, {time.Hour, time.Hour, time.Hour, 0, 0}},
		"a step forward":    {{0, 0, 0, 0, 0}, {time.Second, time.Second, time.Hour, 0, time.Hour - time.Second}},
		"a step back":       {{0, 0, 0, 0, 0}, {time.Second, time.Second, 0, time.Hour, -time.Hour}, {2 * time.Second, 2 * time.Second, time.Second, time.Hour, 0}},
		"a step before it":  {{0, 0, 0, time.Hour, -time.Hour}, {time.Second, time.Second, time.Second, time.Hour, 0}},
		"a clock put right": {{0, 0, 0, time.Hour, -time.Hour}, {time.Second, time.Second, time.Second, 0, time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var watch clockWatch
			for i, l := range looks {
				if by := watch.look(began.Add(l.asked), began.Add(l.answered), began.Add(l.bucket), l.ahead); by != l.jumped {
					t.Errorf("look %d: jumped by %v, should be %v", i, by, l.jumped)
				}
			}
		})
	}
}
