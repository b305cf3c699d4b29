package bridge

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

// Tracer makes spans of the way of jobs. Its methods are called from many goroutines and must not block.
type Tracer interface {
	// Start begins a span; it gives nil where the span is not sampled.
	Start(s SpanStart) Span
}

// Span is one step of a job's way.
type Span interface {
	// Traceparent is the context of what follows from the span, as W3C writes it.
	Traceparent() string
	// End ends it. Only the first call counts, and a span that is never ended is never told of.
	End(e SpanEnd)
}

// SpanKind is which step a span is of.
type SpanKind int

const (
	// SpanPush lasts from the push until its outcome is known.
	SpanPush SpanKind = iota
	// SpanWait lasts from the push to the first delivery.
	SpanWait
	// SpanDeliver lasts from the publish of a delivery until it is certain, or was none.
	SpanDeliver
	// SpanSettle lasts from a worker's answer until its outcome is known.
	SpanSettle
)

// SpanStart says what a span is of.
type SpanStart struct {
	Kind SpanKind
	// Topic is empty where it is not known yet; Attempt is 0 where it does not matter. Verb is of a SpanSettle.
	Topic, ID string
	Attempt   int
	Verb      delay.Verb
	// Traceparent and Tracestate are the context that it is begun in; empty: none.
	Traceparent, Tracestate string
	At                      time.Time
}

// SpanEnd says how it ended.
type SpanEnd struct {
	// Topic is what was learned of it; empty: nothing.
	Topic string
	// Outcome is a word or a code; Failed says that it is no good one.
	Outcome string
	Failed  bool
	// Due is when the job was due, and Late how late it was delivered, where that is known.
	Due  time.Time
	Late time.Duration
	At   time.Time
}

const (
	headerTraceparent = "traceparent"
	headerTracestate  = "tracestate"
)

// tracing follows sampled jobs. A nil one does nothing.
type tracing struct {
	tracer Tracer
	now    func() time.Time
}

func newTracing(o Options) *tracing {
	if o.Tracer == nil {
		return nil
	}
	return &tracing{o.Tracer, o.Now}
}

// flightTrace is what is traced of a flight.
type flightTrace struct {
	deliver Span
	// wait is the span before it, which is told of once the delivery is certain; of a first attempt alone.
	wait SpanStart
	// at is when the delivery was published, due when it was due, by the local clock.
	at, due time.Time
}

// push begins the span of a push. Its context goes into the job's headers: that is how it comes to the delivery.
func (t *tracing) push(job *delay.Job) Span {
	if t == nil {
		return nil
	}
	s := SpanStart{Kind: SpanPush, Topic: job.Topic, ID: job.ID, At: t.now()}
	s.Traceparent, s.Tracestate = contextOf(job.Headers)
	span := t.tracer.Start(s)
	if span != nil {
		h := decodeHeaders(job.Headers)
		if h == nil {
			h = make(nats.Header, 1)
		}
		setTraceparent(h, span.Traceparent())
		job.Headers = encodeHeaders(h)
	}
	return span
}

// deliver begins the span of a delivery that is about to be published, and puts its context into the message: what the
// worker does is below it. It is nil where the job is not traced.
func (t *tracing) deliver(base *delay.Reading, v *delay.Delivery, header nats.Header) *flightTrace {
	if t == nil {
		return nil
	}
	s := SpanStart{Kind: SpanDeliver, Topic: v.Topic, ID: v.ID, Attempt: v.Attempt, At: t.now()}
	s.Traceparent, s.Tracestate = contextOf(v.Headers)
	if !sampled(s.Traceparent) {
		return nil
	}
	span := t.tracer.Start(s)
	if span == nil {
		return nil
	}
	setTraceparent(header, span.Traceparent())
	wait := s
	wait.Kind, wait.At = SpanWait, base.When(v.PushedAt)
	return &flightTrace{deliver: span, wait: wait, at: s.At, due: base.When(v.DueAt)}
}

// delivered ends the span of a delivery that is certain.
func (t *tracing) delivered(f *flight) {
	if f.trace == nil {
		return
	}
	if f.attempt == 1 {
		if wait := t.tracer.Start(f.trace.wait); wait != nil {
			wait.End(SpanEnd{Due: f.trace.due, Late: f.late, At: f.trace.at})
		}
	}
	f.trace.deliver.End(SpanEnd{Due: f.trace.due, Late: f.late, At: t.now()})
}

// returned ends the span of a delivery that was none. Where nobody has heard of it, nothing is told of it: a topic without
// workers is tried again and again.
func (t *tracing) returned(f *flight, why string) {
	if f.trace != nil && why != returnedNobody && why != returnedDenied {
		f.trace.deliver.End(SpanEnd{Outcome: why, Failed: true, At: t.now()})
	}
}

// settle begins the span of a worker's answer: below the worker's own span, where the answer tells of one, else below the
// delivery that it answers, where that was made here.
func (t *tracing) settle(verb delay.Verb, id string, q question, answered *flightTrace) Span {
	if t == nil {
		return nil
	}
	s := SpanStart{Kind: SpanSettle, Verb: verb, ID: id, At: t.now()}
	for name, values := range headersOfQuestion(q) {
		switch {
		case len(values) != 1:
		case strings.EqualFold(name, headerTraceparent):
			s.Traceparent = values[0]
		case strings.EqualFold(name, headerTracestate):
			s.Tracestate = values[0]
		}
	}
	if s.Traceparent == "" && answered != nil {
		s.Traceparent = answered.deliver.Traceparent()
	}
	if !sampled(s.Traceparent) {
		return nil
	}
	return t.tracer.Start(s)
}

// end ends a span of a request with its answer; nil is none.
func (t *tracing) end(span Span, topic string, code int, outcome string) {
	if span == nil {
		return
	}
	failed := code >= http.StatusBadRequest
	if failed {
		outcome = strconv.Itoa(code)
	}
	span.End(SpanEnd{Topic: topic, Outcome: outcome, Failed: failed, At: t.now()})
}

// headersOfQuestion gives the headers of a message, nil of what came otherwise.
func headersOfQuestion(q question) nats.Header {
	switch q := q.(type) {
	case message:
		return q.Header
	case micro.Request:
		return headersOf(q)
	}
	return nil
}

// traceHeaders gives the trace context of an HTTP request as that of a message; nil where there is none.
func traceHeaders(request http.Header) nats.Header {
	parent := request.Get(headerTraceparent)
	if parent == "" {
		return nil
	}
	h := nats.Header{headerTraceparent: {parent}}
	if state := request.Values(headerTracestate); len(state) > 0 {
		h[headerTracestate] = []string{strings.Join(state, ",")}
	}
	return h
}

// contextOf finds the trace context in encoded headers.
func contextOf(block []byte) (string, string) {
	var parent, state string
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte("\r\n"))
		block = rest
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(name) == len(headerTraceparent) && bytes.EqualFold(name, []byte(headerTraceparent)):
			parent = string(value)
		case len(name) == len(headerTracestate) && bytes.EqualFold(name, []byte(headerTracestate)):
			state = string(value)
		}
	}
	return parent, state
}

// setTraceparent puts a context into headers, under the name that they have for it.
func setTraceparent(h nats.Header, value string) {
	for name := range h {
		if strings.EqualFold(name, headerTraceparent) {
			h[name] = []string{value}
			return
		}
	}
	h[headerTraceparent] = []string{value}
}

// sampled reports whether a traceparent says that its trace is kept: 00-<trace>-<span>-<flags, hex>, the lowest flag.
func sampled(traceparent string) bool {
	const flagsAt = len("00-") + 32 + len("-") + 16 + len("-")
	if len(traceparent) < flagsAt+2 {
		return false
	}
	flags, err := strconv.ParseUint(traceparent[flagsAt:flagsAt+2], 16, 8)
	return err == nil && flags&1 == 1
}
