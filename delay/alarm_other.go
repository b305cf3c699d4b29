//go:build !linux

package delay

func newAlarm() alarm { return newTimerAlarm() }
