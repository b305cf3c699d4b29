package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// worker subscribes to ready messages, or to any others, and keeps what comes.
type worker struct {
	rig      *rig
	sub      *nats.Subscription
	audience string // of the history: who shares deliveries; empty: what comes are no deliveries
	handle   func(*delivery)

	mu    sync.Mutex
	got   []*delivery
	taken int // of got, by next
}

// delivery is one ready message.
type delivery struct {
	*nats.Msg
	at time.Time // when it came
	w  *worker
}

// work subscribes to a topic, which may hold wildcards.
func (r *rig) work(t *testing.T, topic string) *worker {
	t.Helper()
	return r.join(t, r.nc, &worker{audience: "plain-" + strconv.Itoa(r.history.number())}, topic, "")
}

// handle subscribes to a topic and calls a function for each job that comes, one after the other.
func (r *rig) handle(t *testing.T, topic string, handle func(*delivery)) *worker {
	t.Helper()
	return r.join(t, r.nc, &worker{audience: "plain-" + strconv.Itoa(r.history.number()), handle: handle}, topic, "")
}

// member subscribes to a topic as one of a queue group.
func (r *rig) member(t *testing.T, nc *nats.Conn, topic, group string) *worker {
	t.Helper()
	return r.join(t, nc, &worker{audience: "group-" + group}, topic, group)
}

// events subscribes to advisories.
func (r *rig) events(t *testing.T, what string) *worker {
	t.Helper()
	w := &worker{rig: r}
	w.subscribe(t, r.nc, r.subject("event."+what), "")
	return w
}

func (r *rig) join(t *testing.T, nc *nats.Conn, w *worker, topic, group string) *worker {
	t.Helper()
	w.rig = r
	w.subscribe(t, nc, r.subject("ready."+topic), group)
	return w
}

func (w *worker) subscribe(t *testing.T, nc *nats.Conn, subject, group string) {
	t.Helper()
	sub, err := nc.QueueSubscribe(subject, group, w.take)
	if err == nil {
		err = errors.Join(sub.SetPendingLimits(-1, -1), nc.FlushTimeout(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.sub = sub
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

func (w *worker) take(msg *nats.Msg) {
	d := &delivery{Msg: msg, at: time.Now(), w: w}
	if w.audience != "" {
		w.rig.history.delivered(w.audience, d)
	}
	w.mu.Lock()
	w.got = append(w.got, d)
	w.mu.Unlock()
	if w.handle != nil {
		w.handle(d)
	}
}

// leave ends the subscription; the server knows it.
func (w *worker) leave(t *testing.T) {
	t.Helper()
	if err := errors.Join(w.sub.Unsubscribe(), w.rig.nc.FlushTimeout(patience)); err != nil {
		t.Fatal(err)
	}
}

// all is what has come so far.
func (w *worker) all() []*delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got[:len(w.got):len(w.got)]
}

func (w *worker) count() int { return len(w.all()) }

// jobs counts the ids that have come.
func (w *worker) jobs() int {
	ids := map[string]bool{}
	for _, d := range w.all() {
		ids[d.id()] = true
	}
	return len(ids)
}

// latest gives the last delivery of each job that has come.
func (w *worker) latest() []*delivery {
	ids := map[string]*delivery{}
	for _, d := range w.all() {
		ids[d.id()] = d
	}
	return slices.Collect(maps.Values(ids))
}

// next waits for the next message.
func (w *worker) next(t *testing.T) *delivery {
	t.Helper()
	var d *delivery
	testenv.Eventually(t, patience, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.taken == len(w.got) {
			return false
		}
		d = w.got[w.taken]
		w.taken++
		return true
	}, "one more message on "+w.sub.Subject)
	return d
}

// await waits until so many messages have come in all.
func (w *worker) await(t *testing.T, n int) []*delivery {
	t.Helper()
	testenv.Eventually(t, patience, func() bool { return w.count() >= n }, fmt.Sprintf("%d messages on %s", n, w.sub.Subject))
	return w.all()
}

// quiet fails the test when one more message comes within a while. It is for what must not happen, which has no event
// to wait for.
func (w *worker) quiet(t *testing.T, while time.Duration) {
	t.Helper()
	timer := time.NewTimer(while)
	defer timer.Stop()
	<-timer.C
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.got[w.taken:] {
		t.Fatalf("one more message on %s: %s %v", d.Subject, d.Data, d.Header)
	}
}

func (d *delivery) id() string { return d.Header.Get("Dq-Id") }

func (d *delivery) attempt() int {
	n, _ := strconv.Atoi(d.Header.Get("Dq-Attempt")) // 0 is no attempt
	return n
}

// due is what the message says of its due time; the zero time where it says none.
func (d *delivery) due() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, d.Header.Get("Dq-Due-At"))
	return at
}

// is checks which delivery of which job it is.
func (d *delivery) is(t *testing.T, id string, attempt int) *delivery {
	t.Helper()
	if d.id() != id || d.Header.Get("Dq-Attempt") != strconv.Itoa(attempt) {
		t.Fatalf("delivery %s of %s instead of %d of %s", d.Header.Get("Dq-Attempt"), d.id(), attempt, id)
	}
	return d
}

// say answers the delivery with a verb and gives the reply.
func (d *delivery) say(t *testing.T, verb string) reply {
	t.Helper()
	return d.w.rig.ask(t, &nats.Msg{Subject: d.Reply, Data: []byte(verb)})
}

// finish acks the delivery, which must end its job.
func (d *delivery) finish(t *testing.T) {
	t.Helper()
	if n := finished(t, d.say(t, "+ACK")); n != 1 {
		t.Fatalf("the ack of delivery %d of %s finished %d jobs", d.attempt(), d.id(), n)
	}
	d.w.rig.history.finished(d.id())
}

// stateReply is the data of the reply to a verb other than finish.
type stateReply struct {
	ID         string
	State      string
	DueAt      time.Time `json:"due_at"`
	DeadlineAt time.Time `json:"deadline_at"`
}

// settle answers with a verb that must be carried out.
func (d *delivery) settle(t *testing.T, verb string) stateReply {
	t.Helper()
	answer := d.say(t, verb)
	var s stateReply
	if err := json.Unmarshal(answer.Data, &s); err != nil || answer.Code != 200 || s.ID != d.id() {
		t.Fatalf("reply to %s: %s (%v)", verb, answer.raw, err)
	}
	return s
}
