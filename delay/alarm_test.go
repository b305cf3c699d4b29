package delay

import (
	"testing"
	"time"
)

func TestAlarm(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() alarm{"kernel": newAlarm, "runtime": newTimerAlarm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := make()
			defer a.close()
			const d = 20 * time.Millisecond
			for _, first := range []time.Duration{d, 0, time.Hour} { // what it is set for before: it counts no more
				began := time.Now()
				a.set(first)
				a.set(d)
				a.wait()
				if came := time.Since(began); came < d {
					t.Errorf("set for %v and then %v, it goes off after %v", first, d, came)
				}
			}
			time.AfterFunc(d, func() { a.set(0) })
			a.set(time.Hour)
			a.wait()
		})
	}
}
