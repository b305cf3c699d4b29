package whole

import (
	"fmt"
	"sort"
	"time"
)

const (
	// NormalLateness is how late a delivery is at most where all is well.
	NormalLateness = 100 * time.Millisecond
	// steady is how long deliveries must be in time, all but one of oneInMany, to be called normal again.
	steady    = 500 * time.Millisecond
	oneInMany = 20
)

// Recovery is how long it took after the end of a fault until all went on; negative: it did not.
type Recovery struct {
	// Confirmed is until a push was confirmed, InTime until jobs came in time again.
	Confirmed, InTime time.Duration
}

// Recovery looks what came after the end of a fault. It may be asked while the run goes on, a while later.
func (h *History) Recovery(end time.Time) Recovery {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Recovery{Confirmed: -1, InTime: -1}
	if i := sort.Search(len(h.confirms), func(i int) bool { return h.confirms[i].After(end) }); i < len(h.confirms) {
		r.Confirmed = h.confirms[i].Sub(end)
	}
	from := sort.Search(len(h.firsts), func(i int) bool { return h.firsts[i].at.After(end) })
	if at, found := inTime(h.firsts[from:]); found {
		r.InTime = at.Sub(end)
	}
	return r
}

// inTime gives the first moment from which on deliveries are in time.
func inTime(firsts []first) (time.Time, bool) {
	late, to := 0, 0
	for from := range firsts {
		for to < len(firsts) && firsts[to].at.Sub(firsts[from].at) < steady {
			if firsts[to].late > NormalLateness {
				late++
			}
			to++
		}
		if to == len(firsts) { // the window is not over yet
			return time.Time{}, false
		}
		if late*oneInMany <= to-from && firsts[from].late <= NormalLateness {
			return firsts[from].at, true
		}
		if firsts[from].late > NormalLateness {
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
		return "never"
	}
	return d.Round(time.Millisecond).String()
}
