package bridge

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

// acks takes the answers of workers, on the ack subjects and by id.
type acks struct {
	queue      *delay.Queue
	subjects   subjects
	limits     limits
	answers    *answers
	dispatcher *dispatcher
	metrics    *metrics
	events     *events
	trace      *tracing
	// peers answers other replicas.
	peers *peers
	// taken notes that the replica of a slot takes its acks itself.
	taken func(slot int)
}

// message makes a question of a plain message.
type message struct{ *nats.Msg }

func (m message) Subject() string { return m.Msg.Subject }
func (m message) Reply() string   { return m.Msg.Reply }
func (m message) Data() []byte    { return m.Msg.Data }

// handle takes whatever comes on the ack subjects of this replica's slot, and of those it covers. It never blocks:
// the answer that nobody listens comes here too, and must be seen before the barrier behind it.
func (a *acks) handle(msg *nats.Msg) {
	s, err := a.subjects.parseAck(msg.Subject)
	switch {
	case err != nil:
		a.answers.refuse(message{msg}, badInput("subject", msg.Subject, "the reply subject of a ready message, as it is"))
	case s.word != "":
		if s.owner == a.dispatcher.name() {
			a.note(s, msg)
		}
	case len(msg.Data) == 0 && msg.Header.Get("Status") == "503":
		a.dispatcher.unheard(flightKey{a.queue.BucketOf(s.id), s.token})
	default:
		if ack := parsePubAck(msg.Data); ack != nil {
			a.dispatcher.told(flightKey{a.queue.BucketOf(s.id), s.token}, ack)
			return
		}
		a.answer(msg, s)
	}
}

// note takes what this replica told itself, or another one told it.
func (a *acks) note(s ackSubject, msg *nats.Msg) {
	data := msg.Data
	switch s.word {
	case wordBarrier:
		if number, err := strconv.ParseUint(s.id, 10, 64); err == nil {
			a.dispatcher.pass(number)
		}
	case wordEnded:
		a.dispatcher.end(parseEnded(data)...)
	case wordWaiting:
		a.dispatcher.awaitedBy(s.id, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
	case wordTaken:
		if slot, err := strconv.Atoi(s.id); err == nil {
			a.taken(slot)
		}
	case wordLook:
		a.queue.Look()
	case wordFigures:
		a.peers.asked(msg)
	case wordReady:
		for line := range strings.Lines(string(data)) {
			bucket, topic, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if b, err := strconv.Atoi(bucket); err == nil && b >= 0 && b < a.queue.Buckets() && delay.CheckTopic(topic) == nil {
				a.dispatcher.heardOf(b, topic)
			}
		}
	}
}

func (a *acks) answer(msg *nats.Msg, s ackSubject) {
	v, f := decodeAck(msg.Data, a.limits)
	if f != nil {
		a.answers.refuse(message{msg}, f)
		return
	}
	verb, urgency := delay.Verb(v.Verb), urgencyOf(message{msg})
	easy := a.dispatcher.answered(flightKey{a.queue.BucketOf(s.id), s.token}, verb != delay.VerbTouch)
	if easy && verb == delay.VerbFinish && urgency == delay.Prompt {
		urgency = delay.Easy
	}
	ack := delay.Ack{ID: s.id, Push: s.push, Token: s.token, Delay: v.Delay, HasDelay: v.HasDelay, Reason: burial(v.Reason)}
	a.settle(verb, ack, message{msg}, urgency, func(e envelope) {
		if e.Code == http.StatusServiceUnavailable && msg.Reply != "" {
			a.answers.unconfirmed(message{msg}, e)
			return
		}
		a.answers.reply(message{msg}, e, -1, nil)
	})
}

// urgencyOf says whether whoever asks waits for the answer.
func urgencyOf(q question) delay.Urgency {
	if q.Reply() == "" {
		return delay.Prompt
	}
	return delay.Awaited
}

// burial is the reason a buried job keeps.
func burial(reason string) string {
	if reason == "" {
		return "buried"
	}
	return "buried: " + reason
}

// byID gives the handler of a verb that names jobs by their ids.
func (a *acks) byID(verb delay.Verb) func(micro.Request) {
	return func(r micro.Request) { a.take(verb, r) }
}

// take carries out a verb for whatever asks.
func (a *acks) take(verb delay.Verb, r question) {
	items, batch, f := decodeSettle(string(verb), r.Data(), a.limits)
	if f == nil && !batch {
		f = items[0].Fault
	}
	switch {
	case f != nil:
		a.answers.refuse(r, f)
	case batch:
		whole := newGathering(a.answers, r, len(items))
		for i := range items {
			a.item(verb, &items[i], r, whole.element(i, items[i].Raw))
		}
	default:
		a.item(verb, &items[0], r, func(e envelope) { a.answers.reply(r, e, -1, nil) })
	}
}

// item settles the job that one item of a request names, and tells the outcome, once.
func (a *acks) item(verb delay.Verb, item *settleItem, q question, done func(envelope)) {
	if item.Fault != nil {
		done(item.Fault.envelope())
		return
	}
	ack := delay.Ack{
		ID: item.ID, Attempt: item.Attempt, Delay: item.Delay, HasDelay: item.HasDelay, Reason: burial(item.Reason),
	}
	a.settle(verb, ack, q, urgencyOf(q), done)
}

// settle carries out a verb and tells its outcome, once.
func (a *acks) settle(verb delay.Verb, ack delay.Ack, q question, urgency delay.Urgency, done func(envelope)) {
	var span Span
	if a.trace != nil {
		span = a.trace.settle(verb, ack.ID, q, a.dispatcher.traceOf(flightKey{a.queue.BucketOf(ack.ID), ack.Token}))
	}
	a.queue.Settle(verb, ack, urgency, func(r delay.Settled) {
		e := settleEnvelope(verb, &ack, r)
		a.trace.end(span, r.Topic, e.Code, string(verb))
		if r.Finished {
			a.metrics.finish(r.Topic)
			a.events.finished(ack.ID, r.Topic)
		}
		if e.Code == http.StatusOK {
			a.metrics.verbs.of(verb).Inc()
		}
		done(e)
	})
}

// settleEnvelope is the answer to a verb.
func settleEnvelope(verb delay.Verb, ack *delay.Ack, r delay.Settled) envelope {
	switch {
	case r.Err == nil && verb == delay.VerbFinish:
		n := 0
		if r.Finished {
			n = 1
		}
		return envelope{Code: http.StatusOK, Data: finishReply{n}}
	case r.Err == nil:
		return envelope{Code: http.StatusOK, Data: newStateReply(ack.ID, r)}
	case errors.Is(r.Err, delay.ErrNotFound):
		return envelope{Code: http.StatusNotFound, Message: "id " + excerpt(ack.ID) + ": no such job", Reason: reasonNotFound}
	case errors.Is(r.Err, delay.ErrOldAttempt), errors.Is(r.Err, delay.ErrState), errors.Is(r.Err, delay.ErrOtherPush):
		text := "id " + excerpt(ack.ID) + ": " + r.Err.Error()
		if r.State != delay.Unknown {
			text += ", the job is " + string(r.State)
		}
		return envelope{Code: http.StatusConflict, Message: text, Reason: reasonOf(r.Err)}
	}
	return unavailable(r.Err, idReply{ack.ID})
}

type finishReply struct {
	Finished int `json:"finished"`
}

func (r finishReply) appendJSON(dst []byte) []byte {
	return append(strconv.AppendInt(append(dst, `{"finished":`...), int64(r.Finished), 10), '}')
}

// stateReply says what a job is after a verb.
type stateReply struct {
	ID       string      `json:"id"`
	State    delay.State `json:"state"`
	DueAt    string      `json:"due_at,omitempty"`
	Deadline string      `json:"deadline_at,omitempty"`
}

func newStateReply(id string, r delay.Settled) stateReply {
	reply := stateReply{ID: id, State: r.State}
	at := formatTime(r.At)
	switch r.State {
	case delay.InFlight:
		reply.Deadline = at
	case delay.Delayed, delay.Ready:
		reply.DueAt = at
	default: // dead, or gone: there is no time that matters
	}
	return reply
}
