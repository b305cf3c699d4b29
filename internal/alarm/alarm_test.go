package alarm

import (
	"testing"
	"time"
)

func TestAlarm(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() Alarm{"kernel": New, "runtime": newTimer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := make()
			defer a.Close()
			const d = 20 * time.Millisecond
			for _, first := range []time.Duration{d, 0, time.Hour} { // what it is set for before: it counts no more
				began := time.Now()
				a.Set(first)
				a.Set(d)
				a.Wait()
				if came := time.Since(began); came < d {
					t.Errorf("set for %v and then %v, it goes off after %v", first, d, came)
				}
			}
			time.AfterFunc(d, func() { a.Set(0) })
			a.Set(time.Hour)
			a.Wait()
		})
	}
}
