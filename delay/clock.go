package delay

import "time"

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
