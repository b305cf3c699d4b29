package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

func TestHeaderForm(t *testing.T) {
	t.Parallel()
	body := "\xff\x00 not JSON"
	header := nats.Header{
		"Dq-Topic": {"t"}, "Dq-Id": {"5"}, "Dq-Delay": {"1.1"}, "Dq-Ttr": {"1m30s"}, "Dq-Max-Attempts": {"3"},
		"Dq-Backoff": {"1, 2s,0.5"}, "Dq-Expires": {"0"}, "Dq-On-Duplicate": {"replace"},
		"Nats-Msg-Id": {"other"}, "nats-foo": {"x"}, "X-Trace": {"a", "b"},
	}
	jobs, batch, f := decodePush("", header, []byte(body), testLimits())
	if f != nil || batch || len(jobs) != 1 || jobs[0].Fault != nil {
		t.Fatalf("got %+v, fault %v", jobs, f)
	}
	want := delay.Job{
		ID: "5", Topic: "t", Delay: 1100 * time.Millisecond, TTR: 90 * time.Second, MaxAttempts: 3,
		Backoff: []time.Duration{time.Second, 2 * time.Second, time.Second / 2}, Expires: time.Millisecond,
		Replace: true, Raw: true, Headers: []byte("X-Trace: a\r\nX-Trace: b\r\n"), Body: []byte(body),
	}
	if diff := cmp.Diff(want, jobs[0].Job); diff != "" {
		t.Error(diff)
	}
	if string(jobs[0].Raw) != body {
		t.Errorf("raw is %q", jobs[0].Raw)
	}
}

func TestHeaderFormRules(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		topic  string
		header nats.Header
		check  func(delay.Job) bool
		text   string // of the fault
	}{
		"topic of the subject": {topic: "t", header: nats.Header{"Dq-Delay": {"5"}}, check: func(j delay.Job) bool { return j.Topic == "t" && j.Delay == 5*time.Second }},
		"no topic":             {header: nats.Header{"Dq-Delay": {"5"}}, text: "topic is missing"},
		"other topic":          {topic: "t", header: nats.Header{"Dq-Topic": {"u"}}, text: "Dq-Topic is u, allowed is the subject's topic t"},
		"bad topic":            {header: nats.Header{"Dq-Topic": {"a b"}}, text: "Dq-Topic a b holds a blank"},
		"empty topic":          {header: nats.Header{"Dq-Topic": {""}}, text: `Dq-Topic "" is empty`},
		"empty id":             {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Id": {""}, "Nats-Msg-Id": {"m"}}, check: func(j delay.Job) bool { return j.ID == "m" }},
		"id of the message":    {header: nats.Header{"Dq-Topic": {"t"}, "Nats-Msg-Id": {"m"}}, check: func(j delay.Job) bool { return j.ID == "m" }},
		"bad id of message":    {header: nats.Header{"Dq-Topic": {"t"}, "Nats-Msg-Id": {" m"}}, text: "Nats-Msg-Id  m begins or ends with a blank"},
		"at":                   {header: nats.Header{"Dq-Topic": {"t"}, "Dq-At": {"1896076800"}}, check: func(j delay.Job) bool { return j.At.Unix() == 1896076800 }},
		"at as text":           {header: nats.Header{"Dq-Topic": {"t"}, "Dq-At": {"2030-01-31T08:00:00Z"}}, check: func(j delay.Job) bool { return j.At.Unix() == 1896076800 }},
		"at and delay":         {header: nats.Header{"Dq-Topic": {"t"}, "Dq-At": {"1"}, "Dq-Delay": {"1"}}, text: "at is given beside delay"},
		"delay +5":             {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Delay": {"+5"}}, text: "Dq-Delay is +5"},
		"delay empty":          {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Delay": {""}}, text: `Dq-Delay is ""`},
		"delay too long":       {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Delay": {"1790000000"}}, text: "a moment goes into Dq-At"},
		"attempts":             {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Max-Attempts": {"many"}}, text: "Dq-Max-Attempts is many"},
		"backoff":              {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Backoff": {"1,,2"}}, text: `Dq-Backoff[1] is ""`},
		"backoff of 101":       {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Backoff": {strings.Repeat("1,", 100) + "1"}}, text: "Dq-Backoff has too many entries"},
		"on duplicate":         {header: nats.Header{"Dq-Topic": {"t"}, "Dq-On-Duplicate": {"drop"}}, text: "Dq-On-Duplicate is drop"},
		"unknown":              {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Dealy": {"5"}}, text: "header Dq-Dealy is unknown"},
		"unknown beside JSON":  {header: nats.Header{"dq-delay": {"5"}}, text: "header dq-delay is unknown"},
		"twice":                {header: nats.Header{"Dq-Topic": {"t"}, "Dq-Delay": {"5", "5"}}, text: "Dq-Delay is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, _, f := decodePush(row.topic, row.header, nil, testLimits())
			if f == nil {
				f = jobs[0].Fault
			}
			if row.text != "" {
				checkFault(t, f, 400, row.text)
			} else if f != nil || !row.check(jobs[0].Job) {
				t.Errorf("got %+v, fault %v", jobs, f)
			}
		})
	}
}

func TestHeaderFormBodyTooLarge(t *testing.T) {
	t.Parallel()
	jobs, _, f := decodePush("", nats.Header{"Dq-Topic": {"t"}}, make([]byte, 1_000_001), testLimits())
	if f != nil {
		t.Fatal(f)
	}
	checkFault(t, jobs[0].Fault, 413, "body has 1000001 bytes")
}

func TestForwardedDelivery(t *testing.T) {
	t.Parallel()
	header := nats.Header{
		"Dq-Ack": {"dq.ack.1"}, "Dq-Id": {"a", "b"}, "Dq-Foo": {"x"}, "dq-bar": {"x"}, "Nats-Msg-Id": {"opaque"}, "X-Own": {"1"},
	}
	jobs, _, f := decodePush("", header, []byte(`{"topic":"t","attempt":3,"due_at":"x","pushed_at":"y"}`), testLimits())
	if f != nil || jobs[0].Fault != nil {
		t.Fatalf("got %+v, fault %v", jobs, f)
	}
	if job := jobs[0].Job; job.ID != "" || job.Raw || string(job.Headers) != "X-Own: 1\r\n" {
		t.Errorf("got %+v", job)
	}
	_, _, f = decodePush("", header, []byte("no JSON"), testLimits())
	checkFault(t, f, 400, "not valid JSON")
}

func TestMessageID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("i", 255)
	for name, row := range map[string]struct{ id, payload, want, text string }{
		"taken":            {"m", `{"topic":"t"}`, "m", ""},
		"null id":          {"m", `{"topic":"t","id":null}`, "m", ""},
		"empty id":         {"m", `{"topic":"t","id":""}`, "m", ""},
		"own id":           {"m", `{"topic":"t","id":"a"}`, "a", ""},
		"own id, bad one":  {" ", `{"topic":"t","id":"a"}`, "a", ""},
		"bad one":          {"a\u200bb", `{"topic":"t"}`, "", `Nats-Msg-Id a\u200bb holds U+200B`},
		"long":             {long, `{"topic":"t"}`, long, ""},
		"in an array":      {"m", `[{"topic":"t"}]`, "m-0", ""},
		"long in an array": {long, `[{"topic":"t"}]`, "", "Nats-Msg-Id iii"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, _, f := decodePush("", nats.Header{"Nats-Msg-Id": {row.id}}, []byte(row.payload), testLimits())
			switch {
			case f != nil:
				t.Fatal(f)
			case row.text != "":
				checkFault(t, jobs[0].Fault, 400, row.text)
			case jobs[0].Fault != nil || jobs[0].Job.ID != row.want:
				t.Errorf("got %+v", jobs[0])
			}
		})
	}
}

func TestMessageHeaders(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Traceparent": {"00-1"}, "X-A": {"message"}, "x-a": {"lower"}, "NATS-Foo": {"x"}}
	payload := `[{"topic":"t","headers":{"X-A":["1","2"]}},{"topic":"t"}]`
	jobs, _, f := decodePush("", header, []byte(payload), testLimits())
	if f != nil {
		t.Fatal(f)
	}
	for i, want := range []string{
		"Traceparent: 00-1\r\nX-A: 1\r\nX-A: 2\r\nx-a: lower\r\n",
		"Traceparent: 00-1\r\nX-A: message\r\nx-a: lower\r\n",
	} {
		if got := string(jobs[i].Job.Headers); got != want {
			t.Errorf("%d: got %q instead of %q", i, got, want)
		}
	}
	if len(header) != 4 || header.Get("X-A") != "message" {
		t.Errorf("the message's headers became %v", header)
	}
}

func TestMessageHeaderLimits(t *testing.T) {
	t.Parallel()
	many := nats.Header{}
	for i := range maxHeaderNames {
		many[strings.Repeat("n", i+1)] = []string{"v"}
	}
	payload := []byte(`{"topic":"t","headers":{"One-More":"v"}}`)
	jobs, _, f := decodePush("", many, payload, testLimits())
	if f != nil {
		t.Fatal(f)
	}
	checkFault(t, jobs[0].Fault, 413, "headers has 65 names with the message's own")
	many["One-More"] = []string{"v"}
	_, _, f = decodePush("", many, payload, testLimits())
	checkFault(t, f, 413, "headers has 65 names")
	_, _, f = decodePush("", nats.Header{"A": {strings.Repeat("v", maxHeaderBytes)}}, payload, testLimits())
	checkFault(t, f, 413, "headers has 16389 bytes")
	_, _, f = decodePush("", nats.Header{"A b": {"v"}}, payload, testLimits())
	checkFault(t, f, 400, "header is A b, allowed is a name of visible ASCII")
}

func TestEncodeHeaders(t *testing.T) {
	t.Parallel()
	h := nats.Header{"B": {"2", "a\r\nC: 3", ""}, "A": {" 1: x "}, "": {"no"}, "D d": {"no"}, "E": {}}
	block := encodeHeaders(h)
	if want := "A:  1: x \r\nB: 2\r\nB: a  C: 3\r\nB: \r\n"; string(block) != want {
		t.Errorf("got %q instead of %q", block, want)
	}
	if diff := cmp.Diff(nats.Header{"A": {" 1: x "}, "B": {"2", "a  C: 3", ""}}, decodeHeaders(block)); diff != "" {
		t.Error(diff)
	}
	for _, none := range []nats.Header{nil, {}, {"A": nil}, {"a:": {"b"}}} {
		if got := encodeHeaders(none); got != nil {
			t.Errorf("%v became %q", none, got)
		}
	}
	if got := decodeHeaders(nil); got != nil {
		t.Errorf("nothing became %v", got)
	}
}

// FuzzHeaders holds that what is written is read the same, and that no block of bytes breaks the reader.
func FuzzHeaders(f *testing.F) {
	f.Add("Name", "value", "other", []byte("A: b\r\nC: d\r\nA: e\r\n"))
	f.Add("a:b", "v\r\nw", "", []byte(": \r\n\r\nno\r\nC: "))
	f.Fuzz(func(t *testing.T, name, value, second string, block []byte) {
		h := nats.Header{name: {value, second}, "Fixed": {second}}
		encoded := encodeHeaders(h)
		want := nats.Header{}
		clean := strings.NewReplacer("\r", " ", "\n", " ")
		for key, values := range h {
			for _, v := range values {
				if validHeaderName(key) {
					want[key] = append(want[key], clean.Replace(v))
				}
			}
		}
		if diff := cmp.Diff(want, decodeHeaders(encoded)); diff != "" {
			t.Fatal(diff)
		}
		once := encodeHeaders(decodeHeaders(block))
		if twice := encodeHeaders(decodeHeaders(once)); string(once) != string(twice) {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}
