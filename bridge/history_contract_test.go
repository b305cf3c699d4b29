package bridge_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// history is what clients saw of a rig's jobs. It checks what holds for every job whatever a test is about: no delivery
// before its due time, none after a confirmed finish, attempts that grow, and the ack subject in both places.
type history struct {
	mu     sync.Mutex
	jobs   map[string]*past
	last   int
	faults []string
	// repeats says that a delivery may come twice under one number, since connections or servers broke.
	repeats bool
	// ahead is how far Redis's clock is ahead of the test's.
	ahead time.Duration
}

// past is what was seen of one id since its last push.
type past struct {
	push     string         // tells the pushes of one id apart; empty: nothing was delivered yet
	finished time.Time      // when its finish was confirmed; zero: it was not
	attempts map[string]int // the last one of each audience
}

// onTheWire is how long a message may still come that was sent before its job's finish was confirmed.
const onTheWire = 500 * time.Millisecond

func newHistory() *history { return &history{jobs: map[string]*past{}} }

// number gives one that was not given before.
func (h *history) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	return h.last
}

func (h *history) allowRepeats() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repeats = true
}

func (h *history) redisIsAhead(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = by
}

// of gives what was seen of an id. The caller holds mu.
func (h *history) of(id string) *past {
	if h.jobs[id] == nil {
		h.jobs[id] = &past{attempts: map[string]int{}}
	}
	return h.jobs[id]
}

// finished notes a confirmed finish.
func (h *history) finished(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(id).finished = time.Now()
}

func (h *history) delivered(audience string, d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(d.id())
	pushedAt := d.pushedAt()
	if push := d.Header.Get("Dq-Due-At") + " " + pushedAt.String(); push != p.push {
		cancelled := p.push == "" && !pushedAt.After(p.finished)
		*p = past{push: push, finished: p.finished, attempts: map[string]int{}}
		if !cancelled {
			p.finished = time.Time{}
		}
	}
	last := p.attempts[audience]
	p.attempts[audience] = d.attempt()
	switch {
	case d.due().IsZero() || d.attempt() < 1 || d.id() == "":
		h.faultf(d, "lacks headers: %v", d.Header)
	case d.at.Add(h.ahead).Before(d.due()):
		h.faultf(d, "comes %v before %v", d.due().Sub(d.at), d.due())
	case d.Reply == "" || d.Reply != d.Header.Get("Dq-Ack"):
		h.faultf(d, "has the reply subject %q and Dq-Ack %q", d.Reply, d.Header.Get("Dq-Ack"))
	case !p.finished.IsZero() && d.at.Sub(p.finished) > onTheWire:
		h.faultf(d, "comes %v after its finish was confirmed", d.at.Sub(p.finished))
	case d.attempt() < last || d.attempt() == last && !h.repeats:
		h.faultf(d, "comes after delivery %d", last)
	}
}

// pushedAt is when a delivered job was pushed, which a message in header form does not tell: then its due time.
func (d *delivery) pushedAt() time.Time {
	const field, layout = `"pushed_at":"`, "2006-01-02T15:04:05.000Z"
	start := bytes.LastIndex(d.Data, []byte(field)) + len(field)
	if start < len(field) || len(d.Data)-start != len(layout)+len(`"}`) {
		return d.due()
	}
	at, err := time.Parse(layout, string(d.Data[start:start+len(layout)]))
	if err != nil {
		return d.due()
	}
	return at
}

// faultf notes a broken promise. The caller holds mu.
func (h *history) faultf(d *delivery, format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf("delivery %d of %q ", d.attempt(), d.id())+fmt.Sprintf(format, args...))
}

// check fails the test for each broken promise.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 20
	for _, fault := range h.faults[:min(len(h.faults), most)] {
		t.Error(fault)
	}
	if len(h.faults) > most {
		t.Errorf("and %d more", len(h.faults)-most)
	}
}
