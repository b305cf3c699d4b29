package delay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Each delayed job is in the one slot that its due time is in, by Redis's clock.
func TestDueIsExact(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 8, MaxDelay: 1000 * time.Hour})
	shift := time.Duration(0)
	store.shift = func() time.Duration { return shift }
	if err := store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var jobs []Job
	for i := range 600 {
		// From 37 ms to some 48 hours, denser at the near end.
		jobs = append(jobs, Job{ID: fmt.Sprintf("job-%d", i), Topic: "t", Delay: time.Duration(37+i*i*i*4/5) * time.Millisecond, TTR: time.Minute})
	}
	pushed := store.Push(t.Context(), jobs)
	for _, p := range pushed {
		if p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	for _, passed := range []time.Duration{0, 20 * time.Second, time.Hour} {
		shift = passed
		for step, slots := range map[time.Duration]int{time.Second: 60, time.Minute: 60, time.Hour: 24} {
			due, err := store.Due(t.Context(), step, slots)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]int64, slots)
			var overdue, later int64
			from := due.From
			for _, p := range pushed {
				switch wait := p.DueAt.Sub(from); {
				case wait < 0:
					overdue++
				case wait >= time.Duration(slots)*step:
					later++
				default:
					want[wait/step]++
				}
			}
			if !slices.Equal(due.Slots, want) || due.Overdue != overdue || due.Later != later {
				t.Errorf("%v later, by %v: %+v instead of %v, overdue %d, later %d", passed, step, due, want, overdue, later)
			}
		}
		totals, err := store.Timeline(t.Context())
		if n := totals.Minute + totals.FiveMinutes + totals.Hour + totals.Day + totals.Later; err != nil || n != int64(len(jobs)) {
			t.Errorf("%v later: %+v of %d jobs, %v", passed, totals, len(jobs), err)
		}
	}
}
