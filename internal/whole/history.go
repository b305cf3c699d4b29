package whole

import (
	"sync"
	"time"
)

// History is what all clients of one run did and saw. Its methods may be called from any goroutine. An id is pushed
// only once in a run: after a second push nobody could tell the deliveries of one job from those of the other.
type History struct {
	now func() time.Time

	mu   sync.Mutex // guards all below
	jobs map[string]*story
	// undoes says that the store may lose its newest changes.
	undoes bool
	// confirms are when jobs were confirmed the first time, firsts the first deliveries of jobs, each in that order.
	confirms []time.Time
	firsts   []first
}

// first is the first delivery of a job, and how late it came.
type first struct {
	at   time.Time
	late time.Duration
}

// story is the history of one job.
type story struct {
	// earliest is the due time as its pusher reckons it, due as the bridge confirmed it; zero: not known.
	earliest, due time.Time
	confirmed     bool
	handovers     []handover
	// finishing is when a finish was sent first, finished when one was confirmed first; zero: never.
	finishing, finished time.Time
}

// handover is one message that a worker got; due is what it said.
type handover struct {
	at      time.Time
	attempt int
	due     time.Time
	left    bool // its worker did not mean to finish the job with it
}

// NewHistory begins a history on the clock of its clients, which must be that of Redis: due times are compared with it.
func NewHistory(now func() time.Time) *History {
	return &History{now: now, jobs: make(map[string]*story)}
}

// StoreUndoes says that the store may lose its newest changes, as a failover of Redis does: a job that nobody confirmed
// may vanish after it was delivered, and an attempt may be one that was made before.
func (h *History) StoreUndoes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undoes = true
}

// Pushing notes that a push is about to be sent, whose job must not come before due. Of a push that is repeated the
// first counts: it may be the one that is stored.
func (h *History) Pushing(id string, due time.Time) {
	h.change(id, func(s *story, _ time.Time) {
		if s.earliest.IsZero() || due.Before(s.earliest) {
			s.earliest = due
		}
	})
}

// Pushed notes that a push was confirmed, with the due time of the answer, or zero where the answer had none. From now
// on the job must not be lost.
func (h *History) Pushed(id string, due time.Time) {
	h.change(id, func(s *story, at time.Time) {
		if !s.confirmed {
			h.confirms = append(h.confirms, at)
		}
		s.confirmed, s.due = true, due
	})
}

// Delivered notes a message that a worker got.
func (h *History) Delivered(id string, attempt int, due time.Time) {
	h.change(id, func(s *story, at time.Time) {
		if len(s.handovers) == 0 {
			h.firsts = append(h.firsts, first{at, at.Sub(due)})
		}
		s.handovers = append(s.handovers, handover{at: at, attempt: attempt, due: due})
	})
}

// Left notes that a worker leaves the job of a delivery on purpose, so that it comes again.
func (h *History) Left(id string, attempt int) {
	h.change(id, func(s *story, _ time.Time) {
		for i := range s.handovers {
			s.handovers[i].left = s.handovers[i].left || s.handovers[i].attempt == attempt
		}
	})
}

// Finishing notes that a finish is about to be sent. From now on the job may be gone.
func (h *History) Finishing(id string) {
	h.change(id, func(s *story, at time.Time) {
		if s.finishing.IsZero() {
			s.finishing = at
		}
	})
}

// Finished notes that a finish was confirmed. From now on the job must not come again.
func (h *History) Finished(id string) {
	h.change(id, func(s *story, at time.Time) {
		if s.finished.IsZero() {
			s.finished = at
		}
	})
}

// IsFinished reports whether a finish was confirmed.
func (h *History) IsFinished(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.jobs[id]
	return s != nil && !s.finished.IsZero()
}

// IsDelivered reports whether a worker got the job.
func (h *History) IsDelivered(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.jobs[id]
	return s != nil && len(s.handovers) > 0
}

// Count gives how many jobs were confirmed, and how many different ones were delivered.
func (h *History) Count() (int, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.confirms), len(h.firsts)
}

// Story tells what was seen of a job, for a message about it.
func (h *History) Story(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.jobs[id]
	if s == nil {
		return "never heard of"
	}
	return s.String()
}

// change takes the time inside the lock, so that the order of the notes is that of their times.
func (h *History) change(id string, f func(s *story, at time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.jobs[id]
	if s == nil {
		s = &story{}
		h.jobs[id] = s
	}
	f(s, h.now())
}
