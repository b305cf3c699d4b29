package cli

import (
	"fmt"
	"strings"
	"time"
)

// stamp is a moment in full, in the time zone of now, which is the user's.
func stamp(at, now time.Time) string {
	return at.In(now.Location()).Format("2006-01-02T15:04:05.000Z07:00")
}

// moment is for a table: on a terminal how far it is away, elsewhere the moment itself.
func (e Env) moment(at time.Time) string {
	if !e.Terminal {
		return stamp(at, e.Now())
	}
	return relative(at, e.Now())
}

func relative(at, now time.Time) string {
	if left := at.Sub(now); left > 0 {
		return "in " + coarse(left)
	}
	return coarse(now.Sub(at)) + " ago"
}

// coarse is a length of time in its two largest units.
func coarse(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return period(d.Round(time.Second))
	case d < day:
		return period(d.Round(time.Minute))
	case d < 100*day:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	default:
		return fmt.Sprintf("%dd", d.Round(day)/day)
	}
}

// period is a length of time in the form that push takes, without what is zero: 2m, not 2m0s.
func period(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
