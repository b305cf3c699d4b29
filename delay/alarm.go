package delay

import "time"

// alarm wakes the one who waits for it at a set moment. Anyone may set it, at any time.
type alarm interface {
	// set makes it go off after d, and not when it was set for before.
	set(d time.Duration)
	// wait returns once it has gone off since it was last set.
	wait()
	close()
}

// timerAlarm is an alarm by the runtime's timers.
type timerAlarm struct{ timer *time.Timer }

func newTimerAlarm() alarm { return timerAlarm{time.NewTimer(time.Hour)} }

func (a timerAlarm) set(d time.Duration) { a.timer.Reset(d) }
func (a timerAlarm) wait()               { <-a.timer.C }
func (a timerAlarm) close()              { a.timer.Stop() }
