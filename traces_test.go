package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const tracePatience = 20 * time.Second

// collector takes spans as an OpenTelemetry collector does.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	spans    []*trace.Span
	resource map[string]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var request collected.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(data, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		for _, resource := range request.ResourceSpans {
			c.resource = attributes(resource.Resource.Attributes)
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func attributes(list []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, kv := range list {
		switch value := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[kv.Key] = value.StringValue
		case *common.AnyValue_IntValue:
			all[kv.Key] = strconv.FormatInt(value.IntValue, 10)
		case *common.AnyValue_DoubleValue:
			all[kv.Key] = fmt.Sprint(value.DoubleValue)
		}
	}
	return all
}

// of gives the spans of a job, by name.
func (c *collector) of(id string) map[string][]*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string][]*trace.Span)
	for _, s := range c.spans {
		if attributes(s.Attributes)["messaging.message.id"] == id {
			found[s.Name] = append(found[s.Name], s)
		}
	}
	return found
}

func (c *collector) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// traced is a bridge of its own process, with a client and a worker of topic t.
type traced struct {
	nc      *nats.Conn
	prefix  string
	process *testenv.Process
	jobs    *nats.Subscription
}

func newTraced(t *testing.T, env ...string) *traced {
	t.Helper()
	server := testenv.NATS(t)
	b := &traced{nc: server.Connect(), prefix: testenv.Prefix(t)}
	b.process = testenv.Start(t, append([]string{
		"DQ_NATS_URL=" + server.URL(), "DQ_REDIS_URL=" + testenv.SharedRedis(t).URL(), "DQ_PREFIX=" + b.prefix, "DQ_HTTP_ADDR=", "DQ_LOG_FORMAT=json",
	}, env...), "serve")
	var err error
	if b.jobs, err = b.nc.SubscribeSync(b.prefix + ".ready.t"); err != nil {
		t.Fatal(err)
	}
	b.process.WaitFor("bridge serves", tracePatience)
	return b
}

// push stores a job; headers are "Name: value".
func (b *traced) push(t *testing.T, job string, headers ...string) {
	t.Helper()
	b.ask(t, b.prefix+".push", job, headers...)
}

func (b *traced) ask(t *testing.T, subject, data string, headers ...string) {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		msg.Header[name] = []string{value}
	}
	answer, err := b.nc.RequestMsg(msg, tracePatience)
	if err != nil || !strings.HasPrefix(string(answer.Data), `{"code":200,`) {
		t.Fatalf("%s %s: %v, %v", subject, data, answer, err)
	}
}

func (b *traced) next(t *testing.T, id string) *nats.Msg {
	t.Helper()
	msg, err := b.jobs.NextMsg(tracePatience)
	if err != nil || msg.Header.Get("Dq-Id") != id {
		t.Fatalf("%v instead of job %s: %v", msg, id, err)
	}
	return msg
}

const (
	pusherTrace = "0af7651916cd43dd8448eb211c80319c"
	pusherSpan  = "b7ad6b7169203331"
	workerSpan  = "00f067aa0ba902b7"
)

// one gives the only span of a name.
func one(t *testing.T, spans map[string][]*trace.Span, name string) *trace.Span {
	t.Helper()
	if len(spans[name]) != 1 {
		t.Fatalf("%d spans %s of %v", len(spans[name]), name, spans)
	}
	return spans[name][0]
}

// under checks which span another one is below.
func under(t *testing.T, s *trace.Span, traceID, parent string) {
	t.Helper()
	if hex.EncodeToString(s.TraceId) != traceID || hex.EncodeToString(s.ParentSpanId) != parent {
		t.Errorf("%s is in trace %s below %s, should be in %s below %s", s.Name, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.ParentSpanId), traceID, parent)
	}
}

// has checks attributes, "name=value".
func has(t *testing.T, s *trace.Span, kind trace.Span_SpanKind, pairs ...string) {
	t.Helper()
	all := attributes(s.Attributes)
	for _, pair := range append(pairs, "messaging.system=dqbridge") {
		if name, value, _ := strings.Cut(pair, "="); all[name] != value {
			t.Errorf("%s has %s=%q instead of %q", s.Name, name, all[name], value)
		}
	}
	if s.Kind != kind {
		t.Errorf("%s is of kind %v instead of %v", s.Name, s.Kind, kind)
	}
}

// TestTraces: the way of a job is one trace below its pusher's span; the worker's own span hangs below the delivery. All is
// sent at the end, since nothing else makes the process send here.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	b := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=600000")
	const wait = 300 * time.Millisecond
	b.push(t, `{"id":"a","topic":"t","delay":0.3}`, "Traceparent: 00-"+pusherTrace+"-"+pusherSpan+"-01", "tracestate: vendor=x")
	first := b.next(t, "a")
	b.ask(t, first.Reply, "-NAK")
	second := b.next(t, "a")
	b.ask(t, second.Reply, "+ACK", "traceparent: 00-"+pusherTrace+"-"+workerSpan+"-01")
	b.push(t, `{"id":"root","topic":"t"}`)
	root := b.next(t, "root")
	b.ask(t, b.prefix+".finish", "root")
	const unsampled = "00-" + pusherTrace + "-" + pusherSpan + "-00"
	b.push(t, `{"id":"quiet","topic":"t"}`, "traceparent: "+unsampled)
	quiet := b.next(t, "quiet")
	b.ask(t, quiet.Reply, "+ACK")
	b.push(t, `{"id":"nobody","topic":"silent"}`)
	if n := c.asked(); n != 0 {
		t.Errorf("spans were sent %d times before the end", n)
	}
	b.process.Term()
	if code := b.process.Wait(tracePatience); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	if c.resource["service.name"] != "dqbridge" || c.resource["service.version"] == "" {
		t.Errorf("the service is %v", c.resource)
	}
	spans := c.of("a")
	push, waited, delivers, settles := one(t, spans, "push t"), one(t, spans, "wait t"), spans["deliver t"], spans["settle t"]
	if len(delivers) != 2 || len(settles) != 2 || len(spans) != 4 {
		t.Fatalf("spans %v", spans)
	}
	under(t, push, pusherTrace, pusherSpan)
	under(t, waited, pusherTrace, hex.EncodeToString(push.SpanId))
	has(t, push, trace.Span_SPAN_KIND_CONSUMER, "messaging.operation.type=process", "messaging.operation.name=push",
		"messaging.destination.name=t", "dqbridge.outcome=stored")
	has(t, waited, trace.Span_SPAN_KIND_INTERNAL, "messaging.destination.name=t")
	for i, msg := range []*nats.Msg{first, second} {
		under(t, delivers[i], pusherTrace, hex.EncodeToString(push.SpanId))
		has(t, delivers[i], trace.Span_SPAN_KIND_PRODUCER, "messaging.operation.type=send", fmt.Sprintf("dqbridge.attempt=%d", i+1))
		// The worker's span would be below this one; the pusher's name for the header stays.
		if got := msg.Header.Get("Traceparent"); got != "00-"+pusherTrace+"-"+hex.EncodeToString(delivers[i].SpanId)+"-01" {
			t.Errorf("the worker got traceparent %q", got)
		}
		if len(msg.Header["traceparent"]) != 0 || msg.Header.Get("tracestate") != "vendor=x" {
			t.Errorf("the worker got %v", msg.Header)
		}
	}
	under(t, settles[0], pusherTrace, hex.EncodeToString(delivers[0].SpanId))
	under(t, settles[1], pusherTrace, workerSpan)
	has(t, settles[0], trace.Span_SPAN_KIND_SERVER, "messaging.operation.name=release", "messaging.operation.type=settle", "dqbridge.outcome=release")
	has(t, settles[1], trace.Span_SPAN_KIND_SERVER, "messaging.operation.name=finish")
	// The store's times are kept to the ms, and its clock is read a moment apart from the process's.
	const blur = uint64(5 * time.Millisecond)
	if took := waited.EndTimeUnixNano - waited.StartTimeUnixNano; took+blur < uint64(wait) {
		t.Errorf("the wait took %v", time.Duration(took))
	}
	for _, pair := range [][2]uint64{
		{push.StartTimeUnixNano, push.EndTimeUnixNano},
		{push.StartTimeUnixNano, waited.StartTimeUnixNano + blur},
		{waited.EndTimeUnixNano, delivers[0].StartTimeUnixNano},
		{delivers[0].StartTimeUnixNano, delivers[0].EndTimeUnixNano},
		{delivers[0].StartTimeUnixNano, settles[0].StartTimeUnixNano},
		{settles[0].StartTimeUnixNano, delivers[1].StartTimeUnixNano},
	} {
		if pair[0] > pair[1] {
			t.Errorf("what came first is later: %v", pair)
		}
	}

	spans = c.of("root")
	push = one(t, spans, "push t")
	deliver := one(t, spans, "deliver t")
	under(t, push, hex.EncodeToString(push.TraceId), "")
	under(t, deliver, hex.EncodeToString(push.TraceId), hex.EncodeToString(push.SpanId))
	if got := root.Header.Get("traceparent"); got != "00-"+hex.EncodeToString(push.TraceId)+"-"+hex.EncodeToString(deliver.SpanId)+"-01" {
		t.Errorf("the worker of a root got traceparent %q", got)
	}
	if len(spans) != 3 { // by id, and without a context, nobody knows which delivery was finished
		t.Errorf("spans of a root: %v", spans)
	}
	if spans := c.of("quiet"); len(spans) != 0 || quiet.Header.Get("traceparent") != unsampled {
		t.Errorf("of a trace that is not kept there are %v, the worker got %v", spans, quiet.Header)
	}
	if spans := c.of("nobody"); len(spans) != 1 {
		t.Errorf("spans of a job that nobody heard of: %v", spans)
	}
}

// TestTracesOff: nothing is sent and no header changes, without a variable and with one that says so.
func TestTracesOff(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	for name, env := range map[string][]string{
		"no endpoint": nil,
		"disabled":    {"OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL},
		"no exporter": {"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + c.URL + "/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTraced(t, env...)
			const parent = "00-" + pusherTrace + "-" + pusherSpan + "-01"
			b.push(t, `{"id":"a","topic":"t"}`, "traceparent: "+parent)
			b.push(t, `{"id":"b","topic":"t"}`)
			for range 2 {
				msg, err := b.jobs.NextMsg(tracePatience)
				if err != nil {
					t.Fatal(err)
				}
				want := ""
				if msg.Header.Get("Dq-Id") == "a" {
					want = parent
				}
				if got := msg.Header.Get("traceparent"); got != want {
					t.Errorf("traceparent %q instead of %q", got, want)
				}
				b.ask(t, msg.Reply, "+ACK")
			}
			b.process.Term()
			b.process.Wait(tracePatience)
			if n := c.asked(); n != 0 {
				t.Errorf("spans were sent %d times", n)
			}
		})
	}
}

// TestTracesAreLost: a collector that is away is told in the log, seldom, and nothing else is the worse for it.
func TestTracesAreLost(t *testing.T) {
	t.Parallel()
	b := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"+testenv.FreePort(t), "OTEL_BSP_SCHEDULE_DELAY=20",
		"OTEL_EXPORTER_OTLP_TIMEOUT=100", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "DQ_SHUTDOWN_TIMEOUT=1s")
	b.process.WaitFor("only so", tracePatience)
	for i := range 20 {
		id := strconv.Itoa(i)
		b.push(t, fmt.Sprintf(`{"id":%q,"topic":"t"}`, id))
		b.ask(t, b.next(t, id).Reply, "+ACK")
	}
	b.process.WaitFor("traces are lost", tracePatience)
	b.process.Term()
	if code := b.process.Wait(tracePatience); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(b.process.Stderr(), "traces are lost"); n > 1+int(tracePatience/(10*time.Second)) {
		t.Errorf("the log tells it %d times", n)
	}
	for line := range strings.Lines(b.process.Stderr()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}
