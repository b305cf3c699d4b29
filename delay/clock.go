package delay

import (
	"sync"
	"time"
)

// jumpLimit is how far Redis's clock may be off against the local one from one look to the next: what a clock that is
// being adjusted does stays far below it.
const jumpLimit = time.Second

// clockWatch compares how far Redis's clock and the local one have come between two looks of a bucket's ticker.
type clockWatch struct {
	// asked is when the last look began, by the local clock; zero: there was none.
	asked time.Time
	redis time.Time
	ahead time.Duration
}

// look notes a look at Redis's clock, that began at asked and ended at answered, and gives by how much the clock has
// jumped since the last one, 0 where it has not. Ahead is how far the bucket's time is ahead of Redis's clock.
func (w *clockWatch) look(asked, answered, bucket time.Time, ahead time.Duration) time.Duration {
	redis := bucket.Add(-ahead)
	last := *w
	*w = clockWatch{asked: asked, redis: redis, ahead: ahead}
	if last.asked.IsZero() {
		if ahead > jumpLimit { // it jumped while nobody looked
			return -ahead
		}
		return 0
	}
	came := redis.Sub(last.redis)
	switch {
	case came > answered.Sub(last.asked)+jumpLimit:
		return came - answered.Sub(last.asked)
	// The bucket holds still through a step back of up to a second.
	case came < -jumpLimit/2:
		return came
	}
	return 0
}

// Reading is what a bucket's clock showed at a local moment, or before it.
type Reading struct{ Local, Clock time.Time }

const (
	// driftLimit is by which part of a time that passes two clocks may differ while they are being adjusted, and more:
	// clocks are slewed by 500 in a million.
	driftLimit = 1000
	// stepped is how much later than known a reading may come until it is the clock that must have been set back, or stands.
	stepped = 2 * time.Millisecond
)

// When gives a local moment at which the clock shows a time, or has shown it just before.
func (r *Reading) When(clock time.Time) time.Time {
	passes := clock.Sub(r.Clock)
	return r.Local.Add(passes + max(passes, 0)/driftLimit)
}

// readings keeps the best reading of a clock that several calls tell of.
type readings struct {
	mu   sync.Mutex
	best Reading
}

// note takes what the clock showed during a call that was answered at a local moment, and gives the best reading. The
// quickest answers tell most.
func (r *readings) note(answered, clock time.Time) Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := answered.Sub(r.best.Local)
	later := passed - clock.Sub(r.best.Clock) - passed/driftLimit
	if r.best.Local.IsZero() || later < 0 || later > stepped {
		r.best = Reading{answered, clock}
	}
	return r.best
}
