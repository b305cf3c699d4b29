package bridge

import (
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

// intake takes pushes: it decodes and checks them, gives them to the queue, and answers when Redis has them.
type intake struct {
	queue    *delay.Queue
	link     *Link
	subjects subjects
	limits   limits
	answers  *answers
	metrics  *metrics
	// dispatcher is told of topics whose jobs may expire.
	dispatcher *dispatcher
	trace      *tracing
}

// handle is called for one message after the other and never waits for Redis.
func (in *intake) handle(r micro.Request) { in.take(r, headersOf(r)) }

// take does the same for whatever asks.
func (in *intake) take(r question, header nats.Header) {
	topic := in.subjects.pushTopic(r.Subject())
	jobs, batch, f := decodePush(topic, header, r.Data(), in.limits)
	switch {
	case f != nil:
	case batch:
		f = in.answerable(r, jobs)
	default:
		f = in.check(&jobs[0])
	}
	switch {
	case f != nil:
		in.answers.refuse(r, f)
	case batch:
		in.array(r, jobs)
	default:
		in.queue.Submit(r.Reply() != "", in.push(&jobs[0].Job, func(_ delay.Pushed, e envelope) { in.answers.reply(r, e, -1, nil) }))
	}
}

// array takes the jobs of an array, each by itself.
func (in *intake) array(r question, jobs []pushed) {
	whole := newGathering(in.answers, r, len(jobs))
	pushes := make([]delay.Push, 0, len(jobs))
	for i := range jobs {
		done := whole.element(i, jobs[i].Raw)
		if f := in.check(&jobs[i]); f != nil {
			done(f.envelope())
			continue
		}
		pushes = append(pushes, in.push(&jobs[i].Job, func(_ delay.Pushed, e envelope) { done(e) }))
	}
	in.queue.Submit(r.Reply() != "", pushes...)
}

// answerable refuses an array whose answers would not fit into one message: it would be stored and never answered.
func (in *intake) answerable(r question, jobs []pushed) *fault {
	const perJob, perIDByte = 80 + shortMessage, 2
	size := perJob * len(jobs)
	for i := range jobs {
		size += perIDByte * len(jobs[i].Job.ID)
	}
	if limit := in.link.MaxPayload(); r.Reply() != "" && limit > 0 && int64(size) > limit {
		return tooLarge("array", size, int(limit), "bytes of answers")
	}
	return nil
}

// push is what stores one checked job and tells what became of it, once.
func (in *intake) push(job *delay.Job, done func(delay.Pushed, envelope)) delay.Push {
	if job.Expires > 0 {
		in.dispatcher.expects(job.Topic)
	}
	span := in.trace.push(job)
	return delay.Push{Job: job, Done: func(result delay.Pushed) {
		e := pushEnvelope(job, result)
		in.trace.end(span, "", e.Code, pushOutcome(result))
		in.metrics.pushed(job.Topic, e.Code, result)
		done(result, e)
	}}
}

// pushOutcome is what a good push came to, as a span tells it.
func pushOutcome(p delay.Pushed) string {
	switch {
	case p.Duplicate:
		return "duplicate"
	case p.Replaced:
		return "replaced"
	}
	return "stored"
}

// check does what decoding cannot: it gives the job an id and holds its size against the server's limit.
func (in *intake) check(p *pushed) *fault {
	if p.Fault != nil {
		return p.Fault
	}
	if p.Job.ID == "" {
		id, err := in.queue.NewID()
		if err != nil {
			return &fault{http.StatusServiceUnavailable, err.Error(), reasonOther}
		}
		p.Job.ID = id
	}
	if limit := in.link.MaxPayload(); limit > 0 && int64(readySize(&p.Job, in.subjects.prefix)) > limit {
		return tooLarge("body with its headers", readySize(&p.Job, in.subjects.prefix), int(limit), "bytes as a delivery")
	}
	return nil
}

// pushEnvelope is the answer to the push of a job.
func pushEnvelope(job *delay.Job, p delay.Pushed) envelope {
	reply := pushReply{ID: job.ID, DueAt: p.DueAt, Duplicate: p.Duplicate, Replaced: p.Replaced}
	if p.Duplicate {
		reply.State = string(p.State)
	}
	switch {
	case p.Err == nil:
		return envelope{Code: http.StatusOK, Data: reply}
	case errors.Is(p.Err, delay.ErrTooFar):
		return tooFar().envelope()
	case errors.Is(p.Err, delay.ErrState):
		return envelope{
			Code: http.StatusConflict, Message: "id " + excerpt(job.ID) + ": the job is " + string(p.State) + " and cannot be replaced",
			Data: idReply{job.ID}, Reason: reasonState,
		}
	case errors.Is(p.Err, delay.ErrOtherTopic):
		return envelope{Code: http.StatusConflict, Message: "id " + excerpt(job.ID) + ": " + p.Err.Error(), Data: reply, Reason: reasonOtherTopic}
	}
	return unavailable(p.Err, idReply{job.ID})
}

// unavailable is the answer where the store did not confirm.
func unavailable(err error, data any) envelope {
	return envelope{Code: http.StatusServiceUnavailable, Message: unconfirmed(err), Data: data, Reason: reasonOf(err)}
}

// tooFar is for a job that is due later than is allowed.
func tooFar() *fault {
	return &fault{http.StatusBadRequest, "at is later than the longest delay from now", reasonTooFar}
}

// unconfirmed says why nothing is confirmed, and whether it may have been done all the same.
func unconfirmed(err error) string {
	var away *delay.UnavailableError
	if errors.As(err, &away) && away.Maybe {
		return "not confirmed, it may be stored: " + away.Cause.Error()
	}
	if errors.As(err, &away) {
		return "nothing was stored: " + away.Cause.Error()
	}
	return err.Error()
}

type idReply struct {
	ID string `json:"id"`
}
