//go:build !linux

package alarm

// New makes an alarm that is not set.
func New() Alarm { return newTimer() }
