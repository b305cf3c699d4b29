package tracing

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dqbridge/dqbridge/bridge"
)

// step is how the spans of one kind are told.
type step struct {
	name string
	// operation is the type of operation by the conventions for messaging; empty: it is none.
	operation string
	kind      trace.SpanKind
}

// stepOf follows the conventions for messaging, where the bridge stands between those who send and those who take: it
// takes a push as a consumer, and sends a delivery as a producer. A delivery is a child of its push, not a link to it: a
// job is one trace from its push to its end, however long that is, and its attempts stand side by side.
func stepOf(kind bridge.SpanKind) step {
	switch kind {
	case bridge.SpanPush:
		return step{"push", "process", trace.SpanKindConsumer}
	case bridge.SpanDeliver:
		return step{"deliver", "send", trace.SpanKindProducer}
	case bridge.SpanSettle:
		return step{"settle", "settle", trace.SpanKindServer}
	default: // bridge.SpanWait
		return step{"wait", "", trace.SpanKindInternal}
	}
}

// span implements bridge.Span.
type span struct {
	trace.Span
	name string
}

// Start implements bridge.Tracer.
func (t *Tracer) Start(s bridge.SpanStart) bridge.Span {
	ctx := t.ctx
	if s.Traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{s.Traceparent, s.Tracestate})
	}
	kind := stepOf(s.Kind)
	name := named(kind.name, s.Topic)
	_, started := t.tracer.Start(ctx, name, trace.WithTimestamp(s.At), trace.WithSpanKind(kind.kind))
	if !started.IsRecording() || !started.SpanContext().IsSampled() {
		return nil
	}
	attributes := []attribute.KeyValue{
		attribute.String("messaging.system", "dqbridge"), attribute.String("messaging.message.id", s.ID),
	}
	if kind.operation != "" {
		operation := kind.name
		if s.Verb != "" {
			operation = string(s.Verb)
		}
		attributes = append(attributes, attribute.String("messaging.operation.name", operation),
			attribute.String("messaging.operation.type", kind.operation))
	}
	if s.Topic != "" {
		attributes = append(attributes, attribute.String("messaging.destination.name", s.Topic))
	}
	if s.Attempt > 0 {
		attributes = append(attributes, attribute.Int("dqbridge.attempt", s.Attempt))
	}
	started.SetAttributes(attributes...)
	return &span{started, kind.name}
}

func named(name, topic string) string {
	if topic == "" {
		return name
	}
	return name + " " + topic
}

// Traceparent implements bridge.Span.
func (s *span) Traceparent() string {
	c := s.SpanContext()
	return fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
}

// End implements bridge.Span.
func (s *span) End(e bridge.SpanEnd) {
	var attributes []attribute.KeyValue
	if e.Topic != "" {
		s.SetName(named(s.name, e.Topic))
		attributes = append(attributes, attribute.String("messaging.destination.name", e.Topic))
	}
	if e.Outcome != "" {
		attributes = append(attributes, attribute.String("dqbridge.outcome", e.Outcome))
	}
	if e.Failed {
		attributes = append(attributes, attribute.String("error.type", e.Outcome))
		s.SetStatus(codes.Error, e.Outcome)
	}
	if !e.Due.IsZero() {
		attributes = append(attributes, attribute.Float64("dqbridge.lateness", e.Late.Seconds()),
			attribute.String("dqbridge.due_at", e.Due.UTC().Format(time.RFC3339Nano)))
	}
	s.SetAttributes(attributes...)
	s.Span.End(trace.WithTimestamp(e.At))
}

// carrier is a trace context that is read by the propagator.
type carrier struct{ traceparent, tracestate string }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	switch key {
	case "traceparent":
		return c.traceparent
	case "tracestate":
		return c.tracestate
	}
	return ""
}

// Set implements propagation.TextMapCarrier: nothing is written.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{"traceparent", "tracestate"} }
