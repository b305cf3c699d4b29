package whole

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is a way in which a run can break what the contract promises.
type Kind string

// The kinds of faults.
const (
	Lost        Kind = "lost"             // confirmed, and never delivered
	Vanished    Kind = "vanished"         // delivered, never finished by anybody, and did not come again
	Early       Kind = "early"            // delivered before it was due
	AfterFinish Kind = "after its finish" // delivered although a finish was confirmed before
	AttemptDown Kind = "attempt went down"
	WrongDue    Kind = "wrong due time" // a delivery says another due time than the confirmation or the delivery before
	Stranger    Kind = "stranger"       // delivered, and nobody pushed it
)

// Fault is one broken promise.
type Fault struct {
	Kind   Kind
	ID     string
	Detail string
}

// Report is what a run showed.
type Report struct {
	// undoes says that the store may lose its newest changes.
	undoes bool

	Pushed      int // confirmed
	Unconfirmed int // pushed without a confirmation: these may be stored or not
	Delivered   int // messages, of all jobs
	Repeated    int // of them with the attempt of the message before: a handover that was not certain was repeated
	Redelivered int // of them with a later attempt than the message before
	OnWire      int // of them after a confirmed finish, but so soon that they were on their way
	Finished    int // jobs whose finish was confirmed

	// Late is how long after its due time the last of the first deliveries came, LateP50 the middle one.
	Late, LateP50 time.Duration

	// Again are those that came again: repeated, redelivered and on the wire.
	Again  []Again
	Faults []Fault
}

// Check compares the history with what the contract promises. It is for the end of a run, when all was finished:
// until then a job that comes later looks lost. A delivery up to wire after a confirmed finish was on its way.
func (h *History) Check(wire time.Duration) Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{undoes: h.undoes}
	var late []time.Duration
	for _, id := range slices.Sorted(maps.Keys(h.jobs)) {
		s := h.jobs[id]
		r.count(s)
		r.checkFate(id, s)
		for i := range s.handovers {
			r.checkHandover(id, s, i, wire)
		}
		if len(s.handovers) > 0 {
			late = append(late, s.handovers[0].at.Sub(s.handovers[0].due))
		}
	}
	if slices.Sort(late); len(late) > 0 {
		r.LateP50, r.Late = late[len(late)/2], late[len(late)-1]
	}
	return r
}

func (r *Report) count(s *story) {
	switch {
	case s.confirmed:
		r.Pushed++
	case !s.earliest.IsZero():
		r.Unconfirmed++
	}
	if !s.finished.IsZero() {
		r.Finished++
	}
	r.Delivered += len(s.handovers)
}

// checkFate finds what did not come. A job that nobody confirmed need not come at all, but once it was delivered it is
// stored, and then it must not vanish either, unless the store undoes what it has done.
func (r *Report) checkFate(id string, s *story) {
	switch {
	case s.earliest.IsZero() && !s.confirmed:
		r.fault(Stranger, id, "%d deliveries", len(s.handovers))
	case len(s.handovers) == 0 && s.confirmed:
		r.fault(Lost, id, "due %s", clock(s.due))
	case len(s.handovers) > 0 && s.finishing.IsZero() && (s.confirmed || !r.undoes):
		r.fault(Vanished, id, "%s", s)
	}
}

// checkHandover finds what should not have come. A store that undoes what it has done may undo the count of attempts.
func (r *Report) checkHandover(id string, s *story, i int, wire time.Duration) {
	d := s.handovers[i]
	for _, due := range []time.Time{s.earliest, s.due, d.due} {
		if d.at.Before(due) {
			r.fault(Early, id, "delivered %s, %v before it was due", clock(d.at), due.Sub(d.at))
			break
		}
	}
	if !s.due.IsZero() && !d.due.Equal(s.due) {
		r.fault(WrongDue, id, "delivered as due %s, confirmed was %s", clock(d.due), clock(s.due))
	}
	onWire := false
	if after := d.at.Sub(s.finished); !s.finished.IsZero() && after > 0 {
		if onWire = after <= wire; onWire {
			r.OnWire++
		} else {
			r.fault(AfterFinish, id, "%v after the finish was confirmed: %s", after, s)
		}
	}
	first := handover{due: d.due}
	if i > 0 {
		first = s.handovers[i-1]
		r.Again = append(r.Again, Again{
			ID: id, Before: first.at, At: d.at, Repeated: d.attempt == first.attempt, OnWire: onWire, Left: first.left,
		})
	}
	r.checkAttempt(id, s, d, first, i > 0)
	if !d.due.Equal(first.due) && s.due.IsZero() {
		r.fault(WrongDue, id, "delivered as due %s, before as %s", clock(d.due), clock(first.due))
	}
}

// checkAttempt counts a handover that is not the first, and finds an attempt that is none or was made before.
func (r *Report) checkAttempt(id string, s *story, d, before handover, again bool) {
	switch {
	case d.attempt < 1 || d.attempt < before.attempt && !r.undoes:
		r.fault(AttemptDown, id, "%d after %d: %s", d.attempt, before.attempt, s)
	case again && d.attempt <= before.attempt:
		r.Repeated++
	case again:
		r.Redelivered++
	}
}

func (r *Report) fault(kind Kind, id, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{Kind: kind, ID: id, Detail: fmt.Sprintf(format, args...)})
}

// Err is nil where no promise was broken. Its text has the first faults of each kind.
func (r *Report) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	const shown = 5
	var text strings.Builder
	count := make(map[Kind]int)
	for _, f := range r.Faults {
		if count[f.Kind]++; count[f.Kind] <= shown {
			fmt.Fprintf(&text, "\n  %s: %s: %s", f.Kind, f.ID, f.Detail)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		if more := count[kind] - shown; more > 0 {
			fmt.Fprintf(&text, "\n  %s: and %d more", kind, more)
		}
	}
	return errors.New("promises are broken:" + text.String())
}

// String is one line with all figures.
func (r *Report) String() string {
	return fmt.Sprintf("%d jobs confirmed, %d not; %d deliveries: %d repeated, %d redelivered, %d on the wire at their finish; "+
		"%d finishes confirmed; lateness p50 %v, max %v; %d faults", r.Pushed, r.Unconfirmed, r.Delivered, r.Repeated,
		r.Redelivered, r.OnWire, r.Finished, r.LateP50.Round(time.Millisecond), r.Late.Round(time.Millisecond), len(r.Faults))
}

// String tells what happened, in the order of the times.
func (s *story) String() string {
	type event struct {
		at   time.Time
		text string
	}
	var events []event
	for _, d := range s.handovers {
		events = append(events, event{d.at, fmt.Sprintf("attempt %d", d.attempt)})
	}
	for text, at := range map[string]time.Time{"finish sent": s.finishing, "finish confirmed": s.finished} {
		if !at.IsZero() {
			events = append(events, event{at, text})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	texts := make([]string, len(events))
	for i, e := range events {
		texts[i] = e.text + " " + clock(e.at)
	}
	return strings.Join(texts, ", ")
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
