package bridge

import (
	"testing"
	"time"
)

func TestFormatTime(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3600)
	for want, moment := range map[string]time.Time{
		"2026-11-30T00:00:00.000Z": time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		"2026-11-29T23:00:00.007Z": time.Date(2026, 11, 30, 0, 0, 0, 7_999_999, east),
		"2036-02-29T23:59:59.999Z": time.Date(2036, 2, 29, 23, 59, 59, 999_999_999, time.UTC),
		"1970-01-01T00:00:00.120Z": time.UnixMilli(120),
	} {
		if got := formatTime(moment); got != want {
			t.Errorf("%v is written %q, should be %q", moment, got, want)
		}
	}
}

func BenchmarkFormatTime(b *testing.B) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 45e6, time.UTC)
	var dst []byte
	for b.Loop() {
		dst = appendTime(dst[:0], at)
	}
}
