package bridge

import "time"

const (
	// What is shown as now are the last recentSlots spans of recentSpan, the running one included.
	recentSpan  = 2 * time.Second
	recentSlots = 5
	// What is shown as the last hour are so many minutes, the running one included.
	pastMinutes = 60
)

// tally counts what happened in a while.
type tally struct{ in, out, finished uint32 }

func (t *tally) sum(other tally) {
	t.in += other.in
	t.out += other.out
	t.finished += other.finished
}

// moment is a time as the figures need it: the numbers of its span and of its minute since 1970.
type moment struct {
	span, minute int64
	// rest is how much of the span is over.
	rest time.Duration
}

func momentAt(sinceEpoch time.Duration) moment {
	return moment{
		span: int64(sinceEpoch / recentSpan), minute: int64(sinceEpoch / time.Minute), rest: sinceEpoch % recentSpan,
	}
}

// ring says which of a number of slots in turn is the present one: the slot of number n is n modulo their number.
type ring struct{ newest, slot int64 }

// turn comes to a number and calls clear for each slot that held an older one. It gives the slot. A clock that was set
// back a little counts for the newest number; further back, and all that was counted is dropped.
func (r *ring) turn(number, slots int64, clear func(slot int64)) int64 {
	switch {
	case number == r.newest, number == r.newest-1:
		return r.slot
	case number < r.newest, number >= r.newest+slots:
		for slot := range slots {
			clear(slot)
		}
		r.newest = number
	default:
		for r.newest < number {
			r.newest++
			clear(r.newest % slots)
		}
	}
	r.slot = r.newest % slots
	return r.slot
}

// series are the counts of one topic, or of all. The figures' mutex guards them.
type series struct {
	spans  ring
	recent [recentSlots]tally
	// past is nil where it is not kept.
	past *past
}

// past is what is kept of a topic whose lateness and last hour are kept.
type past struct {
	name    string
	late    [recentSlots]histogram // beside recent
	minutes ring
	tallies [pastMinutes]tally
	lates   [pastMinutes]histogram
	// looked is the minute in which somebody last looked at it.
	looked int64
}

// at gives the tallies to count into at a moment: of the span, and of the minute where the past is kept.
func (s *series) at(m moment) (int64, int64) {
	span := s.spans.turn(m.span, recentSlots, func(slot int64) {
		s.recent[slot] = tally{}
		if s.past != nil {
			s.past.late[slot] = histogram{}
		}
	})
	if s.past == nil {
		return span, 0
	}
	return span, s.past.minutes.turn(m.minute, pastMinutes, func(slot int64) {
		s.past.tallies[slot], s.past.lates[slot] = tally{}, histogram{}
	})
}

// notTold stands for how late something was that has no due time to tell of.
const notTold = time.Duration(-1)

// add counts; late is how late a delivery was, or notTold.
func (s *series) add(m moment, t tally, late time.Duration) {
	span, minute := s.at(m)
	s.recent[span].sum(t)
	if s.past == nil {
		return
	}
	s.past.tallies[minute].sum(t)
	if late != notTold {
		s.past.late[span].add(late)
		s.past.lates[minute].add(late)
	}
}

// idle reports whether nothing was counted of late.
func (s *series) idle(m moment) bool { return m.span >= s.spans.newest+recentSlots }

// flow gives the figures of now.
func (s *series) flow(m moment) flow {
	s.at(m)
	var sum tally
	var late histogram
	for slot := range s.recent {
		sum.sum(s.recent[slot])
		if s.past != nil {
			late.sum(&s.past.late[slot])
		}
	}
	seconds := ((recentSlots-1)*recentSpan + m.rest).Seconds()
	return flow{
		Known: true, In: float64(sum.in) / seconds, Out: float64(sum.out) / seconds, Finished: float64(sum.finished) / seconds,
		Late: late.pairs(),
	}
}

// hour gives the figures of the last hour, the oldest first.
func (s *series) hour(m moment) hour {
	if s.past == nil {
		return hour{}
	}
	_, newest := s.at(m)
	h := hour{Kept: true}
	for i := range int64(pastMinutes) {
		slot := (newest + 1 + i) % pastMinutes
		t := s.past.tallies[slot]
		h.In = append(h.In, uint64(t.in))
		h.Out = append(h.Out, uint64(t.out))
		h.Finished = append(h.Finished, uint64(t.finished))
		h.Late = append(h.Late, s.past.lates[slot].pairs())
	}
	return h
}
