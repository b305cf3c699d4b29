package whole

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Again is a delivery of a job that was delivered before.
type Again struct {
	ID         string
	Before, At time.Time // of the delivery before, and of this one
	Repeated   bool      // with the same attempt; else with a later one
	OnWire     bool      // after a confirmed finish, so soon that it was on its way
	Left       bool      // the worker before left the job on purpose
}

// Incident is a fault that was made on purpose, from its beginning to its end.
type Incident struct {
	Name     string
	From, To time.Time
}

// explains says whether a delivery can have come again because of the incident: it was there between the two deliveries,
// or so shortly before that its consequences were, and not longer ago than leases and TTRs last.
func (i Incident) explains(a Again, lasting, slack time.Duration) bool {
	return i.From.Before(a.At) && i.To.Add(slack).After(a.Before) && i.To.Add(lasting+slack).After(a.At)
}

// distance is how far the incident was from the delivery before, when something must have happened.
func (i Incident) distance(a Again) time.Duration {
	return max(0, i.From.Sub(a.Before), a.Before.Sub(i.To))
}

// effect is what came of all incidents of one name.
type effect struct {
	times                         int
	lasted                        time.Duration // all together
	recoveries                    []Recovery
	repeated, redelivered, onWire int
}

func (e *effect) count(a Again) {
	if a.Repeated {
		e.repeated++
	} else {
		e.redelivered++
	}
	if a.OnWire {
		e.onWire++
	}
}

// cause gives the nearest incident that explains a delivery, or nil.
func cause(a Again, incidents []Incident, lasting, slack time.Duration) *Incident {
	var nearest *Incident
	for n := range incidents {
		i := &incidents[n]
		if i.explains(a, lasting, slack) && (nearest == nil || i.distance(a) < nearest.distance(a)) {
			nearest = i
		}
	}
	return nearest
}

// Trace finds for each delivery that came again the incident that explains it, the nearest of several, and tells of all
// incidents in a table. Lasting is the longest of leases and TTRs, slack what a busy machine needs more. The second
// result are the deliveries that nothing explains.
func (h *History) Trace(report *Report, incidents []Incident, lasting, slack time.Duration) (string, []Again) {
	const nobody, left = "(unexplained)", "(left by its worker)"
	effects := map[string]*effect{left: {}}
	normal := inTime
	if len(incidents) > 0 {
		normal = h.Normal(incidents[0].From)
	}
	for n, i := range incidents {
		e := effects[i.Name]
		if e == nil {
			e = &effect{}
			effects[i.Name] = e
		}
		e.times++
		e.lasted += i.To.Sub(i.From)
		e.recoveries = append(e.recoveries, h.Recovery(i.To, normal).before(incidents[n+1:], i.To))
	}
	var unexplained []Again
	for _, a := range report.Again {
		if a.Left {
			effects[left].count(a)
		} else if i := cause(a, incidents, lasting, slack); i != nil {
			effects[i.Name].count(a)
		} else {
			unexplained = append(unexplained, a)
		}
	}
	last := &effect{}
	for _, a := range unexplained {
		last.count(a)
	}
	effects[nobody] = last
	return table(effects), unexplained
}

func table(effects map[string]*effect) string {
	const columns = "%-24s %5s %9s %15s %15s %9s %11s %8s\n"
	const row = "%-24s %5d %9s %15s %15s %9d %11d %8d\n"
	var text strings.Builder
	fmt.Fprintf(&text, columns, "fault", "times", "mean long", "push confirmed", "jobs in time", "repeated", "redelivered", "on wire")
	for _, name := range slices.Sorted(maps.Keys(effects)) {
		e := effects[name]
		long, confirmed, inTime := "", "", ""
		if e.times > 0 {
			long = (e.lasted / time.Duration(e.times)).Round(10 * time.Millisecond).String()
			confirmed = spread(e.recoveries, func(r Recovery) time.Duration { return r.Confirmed })
			inTime = spread(e.recoveries, func(r Recovery) time.Duration { return r.InTime })
		}
		fmt.Fprintf(&text, row, name, e.times, long, confirmed, inTime, e.repeated, e.redelivered, e.onWire)
	}
	return text.String()
}

// before takes out of a recovery what came only after the next incident had begun, which says nothing of this one.
func (r Recovery) before(next []Incident, end time.Time) Recovery {
	if len(next) == 0 {
		return r
	}
	if left := next[0].From.Sub(end); r.InTime > left {
		r.InTime = -1
	}
	return r
}

// spread is the middle and the longest time of all; one that was not seen is the longest.
func spread(recoveries []Recovery, of func(Recovery) time.Duration) string {
	const unseen = time.Duration(1<<63 - 1)
	times := make([]time.Duration, len(recoveries))
	for i, r := range recoveries {
		if times[i] = of(r); times[i] < 0 {
			times[i] = unseen
		}
	}
	slices.Sort(times)
	text := func(d time.Duration) string {
		if d == unseen {
			return after(-1)
		}
		return after(d)
	}
	return text(times[len(times)/2]) + " " + text(times[len(times)-1])
}
