package bridge

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	maxWait = time.Minute
	// maxWaiters bounds the pops that wait at this replica.
	maxWaiters = 100_000
	// maxLookers bounds how many questions to Redis are out for pops.
	maxLookers = 64
	// popGrace is how long a pop without a wait may take to find a job.
	popGrace = 1500 * time.Millisecond
	// probeLook is how long a pop waits for the outcome of a probe, or for word to reach other replicas, before it looks
	// again.
	probeLook = 20 * time.Millisecond
	// maxPopReply bounds the reply subject: a delivery has an ack subject beside it, and both must fit into one line.
	maxPopReply = 1024
	// ttrZeroMargin is how long before the end of its wait a pop gets no job that is lost with its reply.
	ttrZeroMargin = 100 * time.Millisecond
	// remoteFor is how long other replicas remember that pops wait here; it is told anew each second.
	remoteFor = 3 * time.Second
)

// waiter is a pop that waits for a job.
type waiter struct {
	// reply is the subject where it waits. give takes the delivery of one that waits in this process, and says whether
	// anybody has it; nil: it waits at reply.
	reply string
	give  func(v *delay.Delivery, header nats.Header) bool
	// until is when it is answered that there is none.
	until time.Time
	// patient says that it waits for a job to come; else it is answered as soon as there is none.
	patient bool
	timer   *time.Timer
	none    func(envelope)
}

var (
	errNoJob   = envelope{Code: http.StatusNotFound, Message: "no job at present", Reason: reasonNoJob}
	errLeaving = envelope{
		Code: http.StatusServiceUnavailable, Message: "the bridge is shutting down or does not serve yet", Reason: reasonLeaving,
	}
)

// pop lets a pop wait: the next ready job of the topic is handed to it, or it is told that there is none.
func (d *dispatcher) pop(topic string, w *waiter, wait time.Duration) {
	w.patient = wait > 0
	if !w.patient {
		wait = popGrace
	}
	if refusal, first := d.admit(topic, w, wait); refusal != nil {
		w.none(*refusal)
	} else if first {
		d.awaits([]string{topic})
	}
}

// admit lets a pop wait, or says why it cannot. The second result says that no pop with patience waited for the topic
// before it: then the other replicas are to be told.
func (d *dispatcher) admit(topic string, w *waiter, wait time.Duration) (*envelope, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.paused[topic]:
		return &envelope{Code: http.StatusNotFound, Message: "topic is paused", Reason: reasonPaused}, false
	case d.stopped, d.waiting >= maxWaiters:
		return &envelope{
			Code: http.StatusServiceUnavailable, Message: "the bridge is shutting down or has too many pops", Reason: reasonBusy,
		}, false
	}
	t := d.topic(topic)
	first := w.patient && !slices.ContainsFunc(t.waiters, func(w *waiter) bool { return w.patient })
	w.until = d.now().Add(wait)
	w.timer = time.AfterFunc(wait, func() { d.giveUpWaiting(t, w) })
	t.waiters = append(t.waiters, w)
	d.waiting++
	if !t.hinted() {
		d.look(t)
	}
	d.enqueue(t)
	if first {
		// What another replica made ready before it heard of this pop is seen by a second look.
		d.lookLater(t)
	}
	return nil, first
}

// lookLater asks Redis in a moment, where somebody still waits then.
func (d *dispatcher) lookLater(t *topic) {
	time.AfterFunc(probeLook, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(t.waiters) > 0 && !t.hinted() {
			d.look(t)
		}
		d.enqueue(t)
	})
}

// giveUpWaiting answers a pop whose wait is over.
func (d *dispatcher) giveUpWaiting(t *topic, w *waiter) {
	if d.withdraw(t, w) {
		w.none(errNoJob)
	}
}

// withdraw takes a waiter away, and says whether it still waited.
func (d *dispatcher) withdraw(t *topic, w *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(t.waiters, w)
	if at < 0 {
		return false
	}
	w.timer.Stop()
	t.waiters = slices.Delete(t.waiters, at, at+1)
	d.waiting--
	return true
}

// leaves takes away a waiter whose client has gone.
func (d *dispatcher) leaves(topic string, w *waiter) {
	d.mu.Lock()
	t := d.topics[topic]
	d.mu.Unlock()
	if t != nil {
		d.withdraw(t, w)
	}
}

// nextWaiter takes the first waiter that may get a job, nil where there is none. The caller holds mu.
func (d *dispatcher) nextWaiter(t *topic, ttrZero bool) *waiter {
	for i, w := range t.waiters {
		if ttrZero && w.patient && w.until.Sub(d.now()) < ttrZeroMargin {
			continue
		}
		w.timer.Stop()
		t.waiters = slices.Delete(t.waiters, i, i+1)
		d.waiting--
		return w
	}
	return nil
}

// look asks Redis which buckets have ready jobs of a topic, for the pops that wait for it; those without patience are
// told when there are none. The caller holds mu.
func (d *dispatcher) look(t *topic) {
	if t.looking || d.stopped {
		return
	}
	t.looking = true
	asked := slices.Clone(t.waiters)
	d.looks.Go(func() {
		d.lookers <- struct{}{}
		defer func() { <-d.lookers }()
		ctx, cancel := context.WithTimeout(d.calls, popGrace)
		defer cancel()
		buckets, err := d.queue.ReadyBuckets(ctx, t.name)
		answer := errNoJob
		if err != nil {
			d.metrics.trouble("look for ready jobs", err)
			answer = unavailable(err, nil)
		}
		for _, w := range d.looked(t, asked, buckets) {
			w.none(answer)
		}
	})
}

// looked takes in which buckets have ready jobs, and gives those of the asked waiters who are to be told that there are
// none. Where others without patience came meanwhile, Redis is asked again.
func (d *dispatcher) looked(t *topic, asked []*waiter, buckets []int) []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.looking = false
	for _, b := range buckets {
		t.hint(b)
	}
	var none []*waiter
	probing := t.out > 0 && (t.listening == nil || !*t.listening)
	if len(buckets) == 0 && (probing || t.hinted()) {
		// A job is out to find a listener, or came back from that meanwhile: what becomes of it is known in a moment.
		d.lookLater(t)
		d.enqueue(t)
		return nil
	}
	if len(buckets) == 0 {
		none = d.takeImpatient(t, asked)
	}
	isNew := func(w *waiter) bool { return !w.patient && !slices.Contains(asked, w) }
	if slices.ContainsFunc(t.waiters, isNew) && !t.hinted() {
		d.look(t)
	}
	d.enqueue(t)
	return none
}

// takeImpatient takes those of the asked waiters who still wait and have no patience. The caller holds mu.
func (d *dispatcher) takeImpatient(t *topic, asked []*waiter) []*waiter {
	var taken []*waiter
	t.waiters = slices.DeleteFunc(t.waiters, func(w *waiter) bool {
		gone := !w.patient && slices.Contains(asked, w)
		if gone {
			w.timer.Stop()
			d.waiting--
			taken = append(taken, w)
		}
		return gone
	})
	return taken
}

// sendAway answers all waiting pops: the replica leaves, and another one can take them.
func (d *dispatcher) sendAway() {
	var all []*waiter
	d.mu.Lock()
	for _, t := range d.topics {
		for _, w := range t.waiters {
			w.timer.Stop()
		}
		all = append(all, t.waiters...)
		t.waiters = nil
	}
	d.waiting = 0
	d.mu.Unlock()
	for _, w := range all {
		if w.give != nil { // who asks this very process has no other one to ask
			w.none(errLeaving)
			continue
		}
		w.none(errNoJob)
	}
}

// awaited gives the topics that pops wait for here.
func (d *dispatcher) awaited() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name, t := range d.topics {
		if slices.ContainsFunc(t.waiters, func(w *waiter) bool { return w.patient }) {
			names = append(names, name)
		}
	}
	return names
}

// awaitedBy notes that pops wait for topics at another replica.
func (d *dispatcher) awaitedBy(owner string, names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for name, owners := range d.remote {
		for other, until := range owners {
			if now.After(until) {
				delete(owners, other)
			}
		}
		if len(owners) == 0 {
			delete(d.remote, name)
		}
	}
	for _, name := range names {
		if d.remote[name] == nil {
			d.remote[name] = make(map[string]time.Time)
		}
		d.remote[name][owner] = now.Add(remoteFor)
	}
}

// pauseReading begins a reading of the paused topics: setPaused takes its result only where no other one, begun later,
// was taken before.
func (d *dispatcher) pauseReading() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pauseReadings++
	return d.pauseReadings
}

// setPaused notes which topics are paused now, and lets those go on that no longer are.
func (d *dispatcher) setPaused(reading uint64, names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reading < d.pauseTaken {
		return
	}
	d.pauseTaken = reading
	before := d.paused
	d.paused = make(map[string]bool, len(names))
	for _, name := range names {
		d.paused[name] = true
	}
	for name := range before {
		if t := d.topics[name]; t != nil && !d.paused[name] {
			t.due = t.silent
			d.enqueue(t)
		}
	}
}

// pausedNames gives the paused topics.
func (d *dispatcher) pausedNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.paused))
	for name := range d.paused {
		names = append(names, name)
	}
	return names
}

// handlePop takes a pop request.
func (a *acks) handlePop(r micro.Request) {
	topic := strings.TrimPrefix(r.Subject(), a.subjects.prefix+".pop.")
	if err := delay.CheckTopic(topic); err != nil {
		a.answers.refuse(r, badRule("topic", topic, err))
		return
	}
	wait, f := decodePop(r.Data(), a.limits)
	if f == nil && r.Reply() == "" {
		f = badShape("reply subject", "is missing: a pop is a request")
	}
	if f == nil && len(r.Reply()) > maxPopReply {
		f = tooLarge("reply subject", len(r.Reply()), maxPopReply, "bytes")
	}
	if f != nil {
		a.answers.refuse(r, f)
		return
	}
	a.dispatcher.pop(topic, &waiter{
		reply: r.Reply(), none: func(e envelope) { a.answers.reply(r, e, -1, nil) },
	}, wait)
}

// decodePop decodes the payload of a pop: nothing, or {"wait": a delay of up to a minute}.
func decodePop(data []byte, lim limits) (time.Duration, *fault) {
	if len(data) == 0 {
		return 0, nil
	}
	var request struct {
		Wait jsontext.Value `json:"wait"`
	}
	if f := decodeRequest(data, &request); f != nil {
		return 0, f
	}
	if !given(request.Wait) {
		return 0, nil
	}
	lim.MaxDelay = maxWait
	return lim.duration("wait", jsonScalar(request.Wait))
}
