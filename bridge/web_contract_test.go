package bridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const asJSON = "Content-Type: application/json"

// is checks that an answer is an envelope whose code is the status and that holds a text.
func (a webAnswer) is(t *testing.T, code int, names string) {
	t.Helper()
	var e struct{ Code int }
	if err := json.Unmarshal([]byte(a.text), &e); err != nil {
		t.Fatalf("%d %q is no envelope: %v", a.StatusCode, a.text, err)
	}
	if a.StatusCode != code || e.Code != code || !strings.Contains(a.text, names) {
		t.Errorf("answer is %d %s instead of %d with %q", a.StatusCode, a.text, code, names)
	}
	if kind := a.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type is %q", kind)
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Error("the answer may be kept by a cache")
	}
}

// TestWebRequests: one row for each way a request can be, all answered with an envelope whose code is the status.
func TestWebRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxBody = 1000 })
	r.push(t, `{"id":"there","topic":"x","delay":99}`)
	large := `{"topic":"t","body":"` + strings.Repeat("x", 1001) + `"}`
	huge := `{"topic":"t","body":"` + strings.Repeat("x", 70_000) + `"}`
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"topic":"m","delay":99},`, 1001), ",") + "]"
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
		names              string
	}{
		"push":                   {"POST", "/push", `{"id":"a","topic":"t","delay":99}`, nil, 200, `"id":"a","due_at":"`},
		"push, with a charset":   {"POST", "/push", `{"id":"cs","topic":"t","delay":99}`, []string{asJSON + "; charset=utf-8"}, 200, ""},
		"push of what is there":  {"POST", "/push", `{"id":"there","topic":"x"}`, nil, 200, `"duplicate":true`},
		"push of another topic":  {"POST", "/push", `{"id":"there","topic":"y"}`, nil, 409, "topic"},
		"array":                  {"POST", "/push", `[{"id":"b","topic":"t","delay":99},{"id":"c","topic":"t","delay":99}]`, nil, 200, `"id":"c"`},
		"array, one bad":         {"POST", "/push", `[{"id":"d","topic":"t","delay":99},{"topic":"t","dealy":5}]`, nil, 207, `dealy`},
		"array, too long":        {"POST", "/push", many, nil, 413, "array"},
		"unknown field":          {"POST", "/push", `{"topic":"t","dealy":5}`, nil, 400, `dealy`},
		"no topic":               {"POST", "/push", `{}`, nil, 400, "topic"},
		"no JSON":                {"POST", "/push", `topic=t`, nil, 400, "JSON"},
		"nothing":                {"POST", "/push", ``, nil, 400, "empty"},
		"large body":             {"POST", "/push", large, nil, 413, "body"},
		"huge body":              {"POST", "/push", huge, nil, 413, "payload"},
		"push with a query":      {"POST", "/push?delay=5", `{"topic":"t"}`, nil, 400, "delay"},
		"push as GET":            {"GET", "/push", "", nil, 405, "POST"},
		"push as PUT":            {"PUT", "/push", `{"topic":"t"}`, nil, 405, "POST"},
		"pop, nothing there":     {"GET", "/pop?topic=none", "", nil, 404, "no job at present"},
		"pop, a short wait":      {"GET", "/pop?topic=none&wait=50ms", "", nil, 404, "no job at present"},
		"pop, seconds":           {"GET", "/pop?topic=none&wait=0.05", "", nil, 404, "no job at present"},
		"pop, no topic":          {"GET", "/pop", "", nil, 400, "topic"},
		"pop, bad topic":         {"GET", "/pop?topic=a.*", "", nil, 400, "topic"},
		"pop, two topics":        {"GET", "/pop?topic=a&topic=b", "", nil, 400, "topic"},
		"pop, wait too long":     {"GET", "/pop?topic=none&wait=61s", "", nil, 400, "wait"},
		"pop, bad wait":          {"GET", "/pop?topic=none&wait=soon", "", nil, 400, "wait"},
		"pop, mistyped":          {"GET", "/pop?topic=none&wiat=5", "", nil, 400, "wiat"},
		"pop as POST":            {"POST", "/pop?topic=none", "", nil, 405, "GET"},
		"finish, nothing there":  {"POST", "/finish?job_id=nothing", "", nil, 200, `{"finished":0}`},
		"finish as GET":          {"GET", "/finish?job_id=nothing", "", nil, 200, `{"finished":0}`},
		"finish, a bracket":      {"GET", "/finish?job_id=" + "%5Ba%5D", "", nil, 200, `{"finished":0}`},
		"finish, no id":          {"POST", "/finish", "", nil, 400, "job_id"},
		"finish, another name":   {"POST", "/finish?id=a", "", nil, 400, "id"},
		"finish, id too long":    {"POST", "/finish?job_id=" + strings.Repeat("x", 257), "", nil, 400, "id"},
		"finish as DELETE":       {"DELETE", "/finish?job_id=a", "", nil, 405, "POST, GET"},
		"query malformed":        {"POST", "/finish?job_id=%zz", "", nil, 400, "query"},
		"unknown path":           {"GET", "/pops?topic=t", "", nil, 404, "/pops"},
		"metrics as POST":        {"POST", "/metrics", "", nil, 405, "GET"},
		"health as POST":         {"POST", "/healthz", "", nil, 405, "GET"},
		"as curl -d sends it":    {"POST", "/push", `{"id":"form","topic":"t","delay":600}`, []string{"Content-Type: application/x-www-form-urlencoded"}, 200, `"id":"form"`},
		"a form of a page":       {"POST", "/push", `{"topic":"t"}`, []string{"Content-Type: text/plain", "Origin: https://example.org"}, 403, ""},
		"a form of a file":       {"POST", "/push", `{"topic":"t"}`, []string{"Content-Type: text/plain", "Origin: null"}, 403, ""},
		"a page of another site": {"POST", "/push", `{"topic":"t"}`, []string{asJSON, "Origin: https://example.org"}, 403, ""},
		"an image in a page":     {"GET", "/pop?topic=none", "", []string{"Sec-Fetch-Site: cross-site"}, 403, ""},
		"a link in a page":       {"GET", "/finish?job_id=there", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 403, ""},
		"typed by the user":      {"GET", "/pop?topic=none", "", []string{"Sec-Fetch-Site: none"}, 404, "no job"},
		"another name for us":    {"GET", "/pop?topic=none", "", []string{"Host: example.org"}, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := row.headers
			if headers == nil {
				headers = []string{asJSON}
			}
			got := r.main.http(t, row.method, row.path, row.body, headers...)
			got.is(t, row.code, row.names)
			if allow := got.Header.Get("Allow"); row.code == 405 && !strings.Contains(allow, row.names) {
				t.Errorf("Allow is %q", allow)
			}
		})
	}
	t.Cleanup(func() { // after the rows
		for _, id := range []string{"there", "a", "cs", "b", "c", "d", "form"} {
			r.finish(t, id)
		}
		r.emptied(t)
	})
}

// TestWebHead: a HEAD request takes no job.
func TestWebHead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t"}`)
	if status := r.main.http(t, http.MethodHead, "/pop?topic=t", "").StatusCode; status != 405 {
		t.Errorf("HEAD /pop: %d", status)
	}
	r.popped(t, "t", "").is(t, "a", 1).finish(t)
}

// TestWebRoundTrip: push, pop, finish over HTTP alone, for bodies of each kind.
func TestWebRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, row := range []struct {
		push, data, encoding string
		header               nats.Header // header form, over NATS
	}{
		{push: `{"topic":"t","ttr":60,"body":{ "to" : "ann",  "n":1.50 }}`, data: `{ "to" : "ann",  "n":1.50 }`},
		{push: `{"topic":"t","ttr":60}`, data: `""`},
		{push: `{"topic":"t","ttr":60,"body":null}`, data: `null`},
		{push: `{"topic":"t","ttr":60,"body":"grüße\u0000"}`, data: `"grüße\u0000"`},
		{push: "\xff\x00 bytes", data: `"/wAgYnl0ZXM="`, encoding: "base64", header: nats.Header{"Dq-Topic": {"t"}, "Dq-Ttr": {"60"}, "Set-Cookie": {"a=b"}}},
		{push: "", data: `""`, encoding: "base64", header: nats.Header{"Dq-Topic": {"t"}, "Dq-Ttr": {"60"}}},
		{push: `[1, 2]`, data: `[1, 2]`, header: nats.Header{"Dq-Topic": {"t"}, "Dq-Ttr": {"60"}}},
	} {
		if row.header != nil {
			msg := r.msg("push", row.push)
			msg.Header = row.header
			if e := r.ask(t, msg); e.Code != 200 {
				t.Fatalf("push %q: %+v", row.push, e)
			}
		} else {
			r.main.http(t, "POST", "/push", row.push, asJSON).is(t, 200, "")
		}
		got := r.main.http(t, "GET", "/pop?topic=t&wait=5s", "")
		got.is(t, 200, `"data":`+row.data+`}`)
		h := got.Header
		id := h.Get("Dq-Id")
		if id == "" || h.Get("Dq-Topic") != "t" || h.Get("Dq-Attempt") != "1" || h.Get("Dq-Ttr") != "60" || h.Get("Dq-Due-At") == "" ||
			h.Get("Dq-Encoding") != row.encoding || !strings.HasPrefix(h.Get("Dq-Ack"), r.Prefix+".ack.") {
			t.Errorf("row %d: headers %v", i, h)
		}
		if h.Get("Set-Cookie") != "" || h.Get("Nats-Msg-Id") != "" {
			t.Errorf("row %d: the pusher's headers are passed on: %v", i, h)
		}
		r.main.http(t, []string{"POST", "GET"}[i%2], "/finish?job_id="+id, "").is(t, 200, `{"finished":1}`)
	}
	r.emptied(t)
}

// TestWebPopIsADelivery: what is popped and not finished comes again after its TTR; a job of no TTR is gone.
func TestWebPopIsADelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t","ttr":0.3}`)
	r.main.http(t, "GET", "/pop?topic=t", "").is(t, 200, "")
	r.main.http(t, "GET", "/pop?topic=t", "").is(t, 404, "no job")
	again := r.main.http(t, "GET", "/pop?topic=t&wait=10s", "")
	again.is(t, 200, "")
	if again.Header.Get("Dq-Attempt") != "2" {
		t.Errorf("attempt %q", again.Header.Get("Dq-Attempt"))
	}
	r.finish(t, "a")
	r.push(t, `{"id":"b","topic":"t","ttr":0,"body":1}`)
	r.main.http(t, "GET", "/pop?topic=t&wait=5s", "").is(t, 200, `"data":1}`)
	r.emptied(t)
}

// TestWebPopWaits: a wait longer than the limit on reading a request goes on, and ends with the push.
func TestWebPopWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const longer = 11 * time.Second
	timer := time.AfterFunc(longer, func() { _ = r.nc.Publish(r.subject("push"), []byte(`{"id":"a","topic":"t"}`)) })
	defer timer.Stop()
	r.main.http(t, "GET", "/pop?topic=t&wait=25s", "").is(t, 200, "")
	r.finish(t, "a")
	r.emptied(t)
}

// TestWebClientGone: a pop whose client has gone takes no job, also where it had waited.
func TestWebClientGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(200*time.Millisecond, cancel)
	defer timer.Stop()
	if got, err := r.main.tryHTTP(ctx, t, "GET", "/pop?topic=t&wait=20s", ""); err == nil {
		t.Fatalf("answered with %s", got.text)
	}
	pause(t, 200*time.Millisecond) // the server sees that the connection is closed
	r.push(t, `{"id":"a","topic":"t","max_attempts":1}`)
	r.popped(t, "t", "").is(t, "a", 1).finish(t)
	r.emptied(t)
}

// TestWebShutdown: pops that wait are answered when the bridge leaves, and it leaves soon.
func TestWebShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const pops = 20
	var group sync.WaitGroup
	answers := make(chan webAnswer, pops)
	for range pops {
		group.Go(func() {
			if got, err := r.main.tryHTTP(t.Context(), t, "GET", "/pop?topic=t&wait=50s", ""); err == nil {
				answers <- got
			}
		})
	}
	pause(t, 500*time.Millisecond)
	since := time.Now()
	if err := r.main.stop(t); err != nil {
		t.Error(err)
	}
	if took := time.Since(since); took > patience {
		t.Errorf("it took %v", took)
	}
	group.Wait()
	close(answers)
	n := 0
	for got := range answers {
		got.is(t, 503, "shutting down")
		n++
	}
	if n != pops {
		t.Errorf("%d of %d pops were answered", n, pops)
	}
}

// TestWebRedisAway: a push that is not confirmed is 503, and says whether it may be stored.
func TestWebRedisAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.redis = testenv.Redis(t, "--appendonly", "yes") })
	r.redis.Kill()
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"t"}`, asJSON).is(t, 503, `"id":"a"`)
	r.main.http(t, "GET", "/pop?topic=t", "").is(t, 503, "")
	r.main.http(t, "POST", "/finish?job_id=a", "").is(t, 503, "")
	r.redis.Restart()
	r.main.ready(t, 200, patience)
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"t"}`, asJSON).is(t, 200, "")
	r.finish(t, "a")
}

// TestWebToken: with a token the queue is served to who has it alone, on any address, whatever the page they come from.
func TestWebToken(t *testing.T) {
	t.Parallel()
	const bearer = "Authorization: Bearer s3cret"
	r := newRig(t, func(s *setup) { s.HTTPAddr, s.HTTPToken = "0.0.0.0:0", "s3cret" })
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"t"}`, asJSON).is(t, 401, "DQ_HTTP_TOKEN")
	r.main.http(t, "GET", "/pop?topic=t", "", "Authorization: Bearer s3cres").is(t, 401, "")
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"t"}`, bearer, "Origin: https://example.org").is(t, 200, "")
	r.main.http(t, "GET", "/pop?topic=t", "", bearer, "Host: example.org").is(t, 200, "")
	r.main.http(t, "GET", "/finish?job_id=a", "", bearer).is(t, 200, `{"finished":1}`)
	open := newRig(t, func(s *setup) { s.HTTPAddr = "0.0.0.0:0" })
	for _, path := range []string{"/push", "/pop?topic=t", "/finish?job_id=a", "/debug/pprof/"} {
		open.main.http(t, "GET", path, "").is(t, 404, "is not known")
	}
}

// TestWebLimits: a header that is too long and a body that does not end are refused, and the bridge goes on.
func TestWebLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if status, _ := r.main.get(t, "/metrics", "X-Long: "+strings.Repeat("x", 100_000)); status != 431 {
		t.Errorf("a long header: %d", status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.main.url(t, ""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST /push HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: 100\r\n\r\n{", asJSON)
	if err = conn.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(status, " 400 ") {
		t.Errorf("a body that does not come: %q %v", status, err)
	}
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"t"}`, asJSON).is(t, 200, "")
	r.finish(t, "a")
}

// TestWebMany: pops at two replicas share the jobs that are pushed at one of them; each job comes to one, once.
func TestWebMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second := r.start(t)
	const jobs, pops = 200, 10
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]int)
	for i := range pops {
		at := []*replica{r.main, second}[i%2]
		group.Go(func() {
			for {
				got, err := at.tryHTTP(t.Context(), t, "GET", "/pop?topic=t&wait=3s", "")
				if err != nil || got.StatusCode != http.StatusOK {
					return
				}
				mu.Lock()
				seen[got.Header.Get("Dq-Id")]++
				mu.Unlock()
				done, err := at.tryHTTP(t.Context(), t, "POST", "/finish?job_id="+got.Header.Get("Dq-Id"), "")
				if err != nil || !strings.Contains(done.text, `{"finished":1}`) {
					t.Errorf("finish: %s %v", done.text, err)
				}
			}
		})
	}
	for i := range jobs / 20 {
		var list []string
		for n := range 20 {
			list = append(list, fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":%g}`, i*20+n, float64(n%3)/10))
		}
		r.main.http(t, "POST", "/push", "["+strings.Join(list, ",")+"]", asJSON).is(t, 200, "")
	}
	group.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d of %d jobs came", len(seen), jobs)
	}
	r.emptied(t)
}

// TestWebPopsAreBounded: beyond so many pops that wait the next one is refused, and others are served.
func TestWebPopsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := strings.TrimPrefix(r.main.url(t, ""), "http://")
	const most = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
	for range most {
		waiting.Go(func() {
			for ctx.Err() == nil { // a busy machine may lose a connection, and then one pop too few waits
				waitForJob(ctx, addr)
			}
		})
	}
	var refusal webAnswer
	testenv.Eventually(t, 4*patience, func() bool {
		refusal = r.main.http(t, "GET", "/pop?topic=other", "")
		return refusal.StatusCode == http.StatusServiceUnavailable
	}, "a pop is refused")
	refusal.is(t, 503, "too many pops")
	r.main.http(t, "POST", "/push", `{"id":"a","topic":"u"}`, asJSON).is(t, 200, "")
	r.main.http(t, "POST", "/finish?job_id=a", "").is(t, 200, `{"finished":1}`)
}

// waitForJob pops as long as it can.
func waitForJob(ctx context.Context, addr string) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprint(conn, "GET /pop?topic=t&wait=60s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err == nil {
		_, _ = io.Copy(io.Discard, conn) // until it has an answer, or the bridge ends it
	}
}

// TestWebTraceContext: the trace context of a push over HTTP goes to the delivery, its other headers do not.
func TestWebTraceContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	answer := r.main.http(t, http.MethodPost, "/push", `{"id":"a","topic":"t"}`, "traceparent: "+parent, "tracestate: a=b", "X-Other: c")
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("push: %d %s", answer.StatusCode, answer.text)
	}
	d := w.next(t).is(t, "a", 1)
	if d.Header.Get("traceparent") != parent || d.Header.Get("tracestate") != "a=b" || d.Header.Get("X-Other") != "" {
		t.Errorf("the delivery has %v", d.Header)
	}
	d.finish(t)
}
