// Package alarm wakes goroutines at set moments, by a timer of the kernel where there is one.
package alarm

import "time"

// Alarm wakes the one who waits for it at a set moment. Anyone may set it, at any time.
type Alarm interface {
	// Set makes it go off after d, and not when it was set for before.
	Set(d time.Duration)
	// Wait returns once it has gone off since it was last set.
	Wait()
	Close()
}

// timer is an alarm by the runtime's timers.
type timer struct{ timer *time.Timer }

func newTimer() Alarm { return timer{time.NewTimer(time.Hour)} }

func (a timer) Set(d time.Duration) { a.timer.Reset(d) }
func (a timer) Wait()               { <-a.timer.C }
func (a timer) Close()              { a.timer.Stop() }
