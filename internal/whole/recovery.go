package whole

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

const (
	// inTime is how late a delivery is at most that is in time, on a machine with nothing else to do.
	inTime = 100 * time.Millisecond
	// timesUsual is how many times what is usual is still in time, on any machine.
	timesUsual = 3
	// steady is how long deliveries must be in time, all but one of oneInMany, to be called normal again.
	steady    = 500 * time.Millisecond
	oneInMany = 20
)

// Recovery is how long it took after the end of a fault until all went on; negative: that was not seen.
type Recovery struct {
	// Confirmed is until a push was confirmed, InTime until jobs came in time again.
	Confirmed, InTime time.Duration
}

// Normal gives how late deliveries are in time on this machine, by what was usual until a moment when all was well.
func (h *History) Normal(until time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var late []time.Duration
	for _, f := range h.firsts {
		if f.at.Before(until) {
			late = append(late, f.late)
		}
	}
	slices.Sort(late)
	if len(late) == 0 {
		return inTime
	}
	return inTime + timesUsual*late[len(late)-1-len(late)/oneInMany]
}

// Recovery looks what came after the end of a fault; jobs are in time that are no later than normal. It may be asked
// while the run goes on, a while later.
func (h *History) Recovery(end time.Time, normal time.Duration) Recovery {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Recovery{Confirmed: -1, InTime: -1}
	if i := sort.Search(len(h.confirms), func(i int) bool { return h.confirms[i].After(end) }); i < len(h.confirms) {
		r.Confirmed = h.confirms[i].Sub(end)
	}
	from := sort.Search(len(h.firsts), func(i int) bool { return h.firsts[i].at.After(end) })
	if at, found := firstInTime(h.firsts[from:], normal); found {
		r.InTime = at.Sub(end)
	}
	return r
}

// firstInTime gives the first moment from which on deliveries are in time.
func firstInTime(firsts []first, normal time.Duration) (time.Time, bool) {
	late, to := 0, 0
	for from := range firsts {
		for to < len(firsts) && firsts[to].at.Sub(firsts[from].at) < steady {
			if firsts[to].late > normal {
				late++
			}
			to++
		}
		if to == len(firsts) { // the window is not over yet
			return time.Time{}, false
		}
		if late*oneInMany <= to-from && firsts[from].late <= normal {
			return firsts[from].at, true
		}
		if firsts[from].late > normal {
			late--
		}
	}
	return time.Time{}, false
}

// String is both times.
func (r Recovery) String() string {
	return fmt.Sprintf("a push is confirmed after %s, jobs come in time after %s", after(r.Confirmed), after(r.InTime))
}

func after(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}
