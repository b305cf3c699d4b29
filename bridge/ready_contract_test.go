package bridge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// TestReadyMessage compares payload and headers of deliveries to the byte.
func TestReadyMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.DefaultTTR = 90500 * time.Millisecond })
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, row := range map[string]struct {
		fields  string   // of a JSON push, with a leading comma
		raw     *string  // the payload of a push in header form
		headers []string // of the push
		body    string   // of the delivery; of a raw push its payload
		delay   string   // as in the delivery
		ttr     string
		own     nats.Header // of the delivery, beside the bridge's own
	}{
		"nothing given":    {body: `""`},
		"null":             {fields: `,"body":null`, body: `null`},
		"spaces":           {fields: `,"body": { "a" : 1e2 ,  "b":[ ] }  `, body: `{ "a" : 1e2 ,  "b":[ ] }`},
		"large number":     {fields: `,"body":130775545883395173`, body: `130775545883395173`},
		"names twice":      {fields: `,"body":{"a":1,"a":2}`, body: `{"a":1,"a":2}`},
		"escapes":          {fields: `,"body":"\u003c<>&\u2028\/\ud83d\ude42\u0000"`, body: `"\u003c<>&\u2028\/\ud83d\ude42\u0000"`},
		"line separator":   {fields: ",\"body\":\"\u2028é\"", body: "\"\u2028é\""},
		"deep":             {fields: `,"body":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), body: strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"4096 bytes":       {fields: `,"body":"` + strings.Repeat("x", 4094) + `"`, body: `"` + strings.Repeat("x", 4094) + `"`},
		"4097 bytes":       {fields: `,"body":"` + strings.Repeat("x", 4095) + `"`, body: `"` + strings.Repeat("x", 4095) + `"`},
		"delay and ttr":    {fields: `,"delay":0.25,"ttr":1e2,"body":1`, body: `1`, delay: "0.25", ttr: "100"},
		"duration strings": {fields: `,"delay":"101ms","ttr":"1m0.5s","body":1`, body: `1`, delay: "0.101", ttr: "60.5"},
		"at in the past":   {fields: `,"at":5,"body":1`, body: `1`},
		"delivered fields": {fields: `,"attempt":7,"due_at":"x","pushed_at":[],"body":1`, body: `1`},
		"headers": {
			headers: []string{
				"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate: a=1", "X-Two: 1", "X-Two: 2",
				"Nats-Expected-Stream: s", "nats-rollup: all", "Nats-Msg-Id: pusher",
			},
			fields: `,"headers":{"X-Own":"é ü","X-List":["a","b"],"x-own":""}`, body: `""`,
			own: nats.Header{
				"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "tracestate": {"a=1"}, "X-Two": {"1", "2"},
				"X-Own": {"é ü"}, "X-List": {"a", "b"}, "x-own": {""},
			},
		},
		"own header wins":  {headers: []string{"X: push", "Y: push"}, fields: `,"headers":{"X":"field"}`, body: `""`, own: nats.Header{"X": {"field"}, "Y": {"push"}}},
		"raw":              {raw: ptr("plain text"), body: "plain text"},
		"raw, empty":       {raw: ptr(""), body: ""},
		"raw, JSON":        {raw: ptr(`{"topic":"other"} `), body: `{"topic":"other"} `},
		"raw, every byte":  {raw: ptr(string(every)), body: string(every)},
		"raw, 5000 bytes":  {raw: ptr(strings.Repeat("\r\n\x00é\xff", 900)), body: strings.Repeat("\r\n\x00é\xff", 900)},
		"raw with headers": {raw: ptr("x"), headers: []string{"Dq-Delay: 0.1", "Dq-Ttr: 7", "X: y", "Nats-Ttr: 1"}, body: "x", ttr: "7", own: nats.Header{"X": {"y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "body." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w := r.work(t, topic)
			msg := r.msg("push", fmt.Sprintf(`{"id":%q,"topic":%q%s}`, topic, topic, row.fields), row.headers...)
			if row.raw != nil {
				msg = r.msg("push", *row.raw, append(row.headers, "Dq-Topic: "+topic, "Dq-Id: "+topic)...)
			}
			p := r.pushMsg(t, msg)
			d := w.next(t).is(t, topic, 1)
			due := p.DueAt.UTC().Format(wireTime)
			delay, ttr := row.delay, row.ttr
			if ttr == "" {
				ttr = "90.5"
			}
			if delay == "" {
				delay = "0"
			}
			want := row.body
			if row.raw == nil {
				want = fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%s,"ttr":%s,"body":%s,"attempt":1,"due_at":%q,"pushed_at":%q}`,
					topic, topic, delay, ttr, row.body, due, d.pushedAt().UTC().Format(wireTime))
				if took, _ := time.ParseDuration(delay + "s"); d.due().Sub(d.pushedAt()) != took {
					t.Errorf("due at %v, pushed at %v, delay %s", d.due(), d.pushedAt(), delay)
				}
			}
			if string(d.Data) != want {
				t.Errorf("payload %s\ninstead of %s", d.Data, want)
			}
			headers := nats.Header{
				"Dq-Id": {topic}, "Dq-Topic": {topic}, "Dq-Attempt": {"1"}, "Dq-Due-At": {due}, "Dq-Ttr": {ttr},
				"Dq-Ack": {d.Reply}, "Nats-Msg-Id": {d.Header.Get("Nats-Msg-Id")},
			}
			maps.Copy(headers, row.own)
			if diff := cmp.Diff(headers, d.Header); diff != "" || d.Header.Get("Nats-Msg-Id") == "" || d.Subject != r.subject("ready."+topic) {
				t.Errorf("headers of %s differ (-want +got):\n%s", d.Subject, diff)
			}
			d.finish(t)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

func ptr[T any](v T) *T { return &v }

// TestDueDelivery: jobs come when they are due, not with the next tick, and never before.
func TestDueDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs, rounds = 40, 6
	var lateness []time.Duration
	for round := range rounds {
		lateness = r.lateness(t, fmt.Sprintf("due.%d", round), jobs)
		// With ticks of a second alone the median would be half a second. It is some milliseconds; what more is allowed,
		// and that there is more than one try, is for a busy machine.
		if lateness[jobs/2] < 100*time.Millisecond {
			r.emptied(t)
			return
		}
	}
	t.Errorf("half of the jobs come more than %v late: %v", lateness[jobs/2], lateness)
}

// lateness pushes jobs that are due one after the other and gives how late they came, sorted.
func (r *rig) lateness(t *testing.T, topic string, jobs int) []time.Duration {
	t.Helper()
	w := r.work(t, topic)
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"topic":%q,"delay":"%dms"}`, topic, 100+37*i))
	}
	var lateness []time.Duration
	for _, d := range w.await(t, jobs) {
		lateness = append(lateness, d.at.Sub(d.due())) // history checks that none is negative
		d.finish(t)
	}
	slices.Sort(lateness)
	return lateness
}

// TestMessageIDs: one Nats-Msg-Id for each attempt of each push, so that a stream's dedupe drops nothing else.
func TestMessageIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.work(t, "ids"), r.work(t, "ids")
	seen := map[string]bool{}
	for range 3 { // pushes of the same ids
		for _, id := range []string{"a", "b"} {
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":"ids"}`, id))
			for attempt := 1; ; attempt++ {
				d, other := first.next(t).is(t, id, attempt), second.next(t).is(t, id, attempt)
				key := d.Header.Get("Nats-Msg-Id")
				if key == "" || key != other.Header.Get("Nats-Msg-Id") || seen[key] {
					t.Errorf("delivery %d of %s has %q, for the other worker %q, seen before: %v", attempt, id, key,
						other.Header.Get("Nats-Msg-Id"), seen[key])
				}
				seen[key] = true
				if attempt == 3 {
					d.finish(t)
					break
				}
				d.settle(t, "-NAK")
			}
		}
	}
	r.emptied(t)
}

// TestForward: a delivered message that is pushed again as it is, with its headers or without, is the same job anew.
func TestForward(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "forward")
	r.push(t, `{"id":"a","topic":"forward","delay":0.1,"ttr":7,"body":{"n": 1.0},"max_attempts":9}`, "X-Own: 1", "traceparent: 00-1")
	d := w.next(t).is(t, "a", 1)
	for name, headers := range map[string]nats.Header{"message": d.Header, "payload": nil} {
		again := &nats.Msg{Subject: r.subject("push"), Header: headers, Data: d.Data}
		if p := r.pushMsg(t, again); !p.Duplicate || p.ID != "a" || p.State != "inflight" {
			t.Errorf("%s: while the job is out, the push of it is %+v", name, p)
		}
	}
	for name, headers := range map[string]nats.Header{"message": d.Header, "payload": nil} {
		d.settle(t, "-NAK")
		d = w.next(t)
		d.finish(t)
		r.pushMsg(t, &nats.Msg{Subject: r.subject("push.forward"), Header: headers, Data: d.Data})
		next := w.next(t).is(t, "a", 1)
		var was, is map[string]any
		if err := json.Unmarshal(d.Data, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(next.Data, &is); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"id", "topic", "delay", "ttr", "body"} {
			if diff := cmp.Diff(was[field], is[field]); diff != "" {
				t.Errorf("%s: %s differs (-want +got):\n%s", name, field, diff)
			}
		}
		own := ""
		if headers != nil {
			own = "1"
		}
		if next.Header.Get("X-Own") != own || next.Header.Get("Nats-Msg-Id") == d.Header.Get("Nats-Msg-Id") {
			t.Errorf("%s: headers %v after %v", name, next.Header, d.Header)
		}
		d = next
	}
	d.finish(t)
	// The payload decides: what was in header form is no job when it is forwarded.
	r.push(t, "no JSON", "Dq-Topic: forward", "Dq-Id: raw")
	d = w.next(t).is(t, "raw", 1)
	refused(t, r.ask(t, &nats.Msg{Subject: r.subject("push"), Header: d.Header, Data: d.Data}), 400, "payload")
	d.finish(t)
	r.emptied(t)
}

// TestOddNames takes ids and topics of all sorts through a whole life.
func TestOddNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, row := range []struct{ id, topic string }{
		{"a:b", "t"},
		{":", "t:"},
		{"a b", "{}"},
		{"a  b", "a{b}c"},
		{"a/b", "é"},
		{"a{b}c", "e\u0301"},
		{"{}", "日本"},
		{"a*", "🙂"},
		{">", "$JS.API.INFO"},
		{"a.b", "-"},
		{"..", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p"},
		{"-", strings.Repeat("t", 200)},
		{"=", `a"b`},
		{"é", `a\b`},
		{"e\u0301", "<&'"},
		{"日本", "_INBOX.x"},
		{"🙂", "push"},
		{`"quoted"`, "finish"},
		{`\`, "0"},
		{`[1]`, "+ACK"},
		{"<&'%>", "%s"},
		{strings.Repeat("i", 256), "i"},
		{strings.Repeat("é", 128), "e"},
		{"0", "1"},
		{"1 2 3 4 o l t", "d"},
		{"550e8400-e29b-41d4-a716-446655440000", "u"},
		{"550E8400-E29B-41D4-A716-446655440000", "u"},
		{"550e8400e29b41d4a716446655440000", "u"},
		{"550e8400-e29b-41d4-a716-44665544000g", "u"},
		{"\uFFFD", "\uFFFD"},
		{"b:c", "x"},
		{"c", "x:b"},
		{"+ACK", "A"},
		{"null", "B"},
		{"NATS/1.0", "C"},
		{"日本 語", "D"},
		{"k", "a.é"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			r.liveOdd(t, row.id, row.topic)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// liveOdd pushes, delivers, releases, redelivers and finishes a job; then once more in header form.
func (r *rig) liveOdd(t *testing.T, id, topic string) {
	t.Helper()
	w := r.work(t, topic)
	mine := func() *delivery { // rows may share a topic
		for {
			if d := w.next(t); d.id() == id {
				return d
			}
		}
	}
	quoted, err := json.Marshal(map[string]string{"id": id, "topic": topic})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.push(t, string(quoted)); p.ID != id || p.Duplicate {
		t.Fatalf("push: %+v", p)
	}
	d := mine().is(t, id, 1)
	var job struct{ ID, Topic string }
	if err := json.Unmarshal(d.Data, &job); err != nil || job.ID != id || job.Topic != topic || d.Header.Get("Dq-Topic") != topic ||
		d.Subject != r.subject("ready."+topic) {
		t.Errorf("delivered on %s: %s %v (%v)", d.Subject, d.Data, d.Header, err)
	}
	if p := r.push(t, string(quoted)); !p.Duplicate || p.State != "inflight" {
		t.Errorf("second push: %+v", p)
	}
	d.settle(t, "-NAK")
	mine().is(t, id, 2).finish(t)

	if p := r.pushMsg(t, r.msg("push."+topic, "raw", "Dq-Id: "+id)); p.ID != id || p.Duplicate {
		t.Fatalf("push in header form: %+v", p)
	}
	d = mine().is(t, id, 1)
	payload := id
	if strings.ContainsAny(id[:1], `{["`) {
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		payload = string(quoted)
	}
	if n := finished(t, r.ask(t, r.msg("finish", payload))); n != 1 {
		t.Errorf("finish by id: %d", n)
	}
	r.history.finished(id)
	if n := finished(t, d.say(t, "+ACK")); n != 0 {
		t.Errorf("ack after the finish: %d", n)
	}
}
