package bridge

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

const tracedParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// fakeTracer samples all or nothing, and costs nothing.
type fakeTracer struct{ span Span }

func (f fakeTracer) Start(SpanStart) Span { return f.span }

type fakeSpan struct{}

func (fakeSpan) Traceparent() string { return tracedParent }

func (fakeSpan) End(SpanEnd) {}

// way goes the way of a job as far as tracing is concerned.
func (t *tracing) way(job delay.Job, v *delay.Delivery, base *delay.Reading, answer message) {
	t.end(t.push(&job), "", 200, "stored")
	f := flight{attempt: 1, trace: t.deliver(base, v, answer.Header)}
	t.delivered(&f)
	t.end(t.settle(delay.VerbFinish, job.ID, answer, f.trace), "", 200, "finish")
}

func someTraced(parent string) (delay.Job, *delay.Delivery, *delay.Reading, message) {
	job := delay.Job{ID: "a", Topic: "t"}
	if parent != "" {
		job.Headers = encodeHeaders(nats.Header{"a": {"b"}, "traceparent": {parent}})
	}
	now := time.Unix(1_700_000_000, 0)
	return job, &delay.Delivery{Job: job, Attempt: 1, PushedAt: now, DueAt: now}, &delay.Reading{Local: now, Clock: now},
		message{&nats.Msg{Header: make(nats.Header)}}
}

// TestTracingOffAllocatesNothing: where nobody wants traces, following a job costs no memory.
func TestTracingOffAllocatesNothing(t *testing.T) {
	off := (*tracing)(nil)
	job, v, base, answer := someTraced(tracedParent)
	if n := testing.AllocsPerRun(100, func() {
		off.way(job, v, base, answer)
	}); n != 0 {
		t.Errorf("%v allocations a job", n)
	}
}

// BenchmarkTracing is what tracing costs a job beside the SDK: off, not sampled, and sampled.
func BenchmarkTracing(b *testing.B) {
	for name, trace := range map[string]*tracing{
		"off": nil, "none": {fakeTracer{}, time.Now}, "sampled": {fakeTracer{fakeSpan{}}, time.Now},
	} {
		b.Run(name, func(b *testing.B) {
			parent := ""
			if name == "sampled" {
				parent = tracedParent
			}
			job, v, batch, answer := someTraced(parent)
			b.ReportAllocs()
			for b.Loop() {
				trace.way(job, v, batch, answer)
			}
		})
	}
}

func TestContextOf(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		header        nats.Header
		parent, state string
	}{
		"none":       {nil, "", ""},
		"others":     {nats.Header{"a": {"b"}, "traceparents": {"x"}, "parent": {"y"}}, "", ""},
		"both":       {nats.Header{"a": {"b"}, "traceparent": {"x"}, "tracestate": {"y=z"}, "z": {"z"}}, "x", "y=z"},
		"other case": {nats.Header{"Traceparent": {"x"}, "TRACESTATE": {"y"}}, "x", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if parent, state := contextOf(encodeHeaders(row.header)); parent != row.parent || state != row.state {
				t.Errorf("%q, %q instead of %q, %q", parent, state, row.parent, row.state)
			}
		})
	}
}

func TestSampled(t *testing.T) {
	t.Parallel()
	const head = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for text, want := range map[string]bool{
		head + "01": true, head + "03": true, head + "00": false, head + "02": false, head + "0": false, head + "zz": false, "": false, "x": false,
	} {
		if sampled(text) != want {
			t.Errorf("%q is sampled: %v", text, !want)
		}
	}
}
