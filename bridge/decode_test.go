package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

func testLimits() limits {
	return limits{MaxDelay: 87600 * time.Hour, MaxBody: 1_000_000, MaxBatch: 1000, DefaultTTR: time.Minute, MaxAttempts: 7}
}

// accepted is the job that most rows below begin with: {"topic":"t"}.
func accepted(change func(*delay.Job)) delay.Job {
	job := delay.Job{Topic: "t", TTR: time.Minute, MaxAttempts: 7, Body: []byte(`""`)}
	if change != nil {
		change(&job)
	}
	return job
}

func TestDecodePushAccepts(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	hundred := strings.TrimSuffix(strings.Repeat("1,", 100), ",")
	at := time.Date(2030, 1, 31, 8, 0, 0, int(250*ms), time.UTC)
	for name, row := range map[string]struct {
		fields string
		want   func(*delay.Job)
	}{
		"nothing given":         {``, nil},
		"id":                    {`"id":"a b/é"`, func(j *delay.Job) { j.ID = "a b/é" }},
		"name with an escape":   {`"\u0069d":"a"`, func(j *delay.Job) { j.ID = "a" }},
		"value with an escape":  {`"id":"\u00e9"`, func(j *delay.Job) { j.ID = "é" }},
		"id null":               {`"id":null`, nil},
		"id empty":              {`"id":""`, nil},
		"all null":              {`"delay":null,"at":null,"ttr":null,"max_attempts":null,"backoff":null,"expires":null,"on_duplicate":null,"headers":null`, nil},
		"delay 1.1":             {`"delay":1.1`, func(j *delay.Job) { j.Delay = 1100 * ms }},
		"delay below 1 ms":      {`"delay":0.0001`, func(j *delay.Job) { j.Delay = ms }},
		"delay 1e-1":            {`"delay":1e-1`, func(j *delay.Job) { j.Delay = 100 * ms }},
		"delay 1E+1":            {`"delay":1E+1`, func(j *delay.Job) { j.Delay = 10 * time.Second }},
		"delay long fraction":   {`"delay":1.9999999999999999`, func(j *delay.Job) { j.Delay = 2 * time.Second }},
		"delay negative":        {`"delay":-1`, nil},
		"delay most negative":   {`"delay":-1e999999999`, nil},
		"delay the longest":     {`"delay":315360000.000`, func(j *delay.Job) { j.Delay = 87600 * time.Hour }},
		"delay duration":        {`"delay":"1m30s"`, func(j *delay.Job) { j.Delay = 90 * time.Second }},
		"delay fine duration":   {`"delay":"1001µs"`, func(j *delay.Job) { j.Delay = 2 * ms }},
		"delay negative string": {`"delay":"-5s"`, nil},
		"at string":             {`"at":"2030-01-31T09:00:00.2491+01:00"`, func(j *delay.Job) { j.At = at }},
		"at number":             {`"at":1896076800.2491`, func(j *delay.Job) { j.At = at }},
		"at past":               {`"at":"0000-01-01T00:00:00Z"`, func(j *delay.Job) { j.At = time.UnixMilli(0).UTC() }},
		"at negative":           {`"at":-5`, func(j *delay.Job) { j.At = time.UnixMilli(0).UTC() }},
		"at beside null delay":  {`"at":1896076800.25,"delay":null`, func(j *delay.Job) { j.At = at }},
		"ttr":                   {`"ttr":1.5`, func(j *delay.Job) { j.TTR = 1500 * ms }},
		"ttr zero":              {`"ttr":0`, func(j *delay.Job) { j.TTR = 0 }},
		"ttr negative":          {`"ttr":"-1h"`, func(j *delay.Job) { j.TTR = 0 }},
		"max_attempts 0":        {`"max_attempts":0`, func(j *delay.Job) { j.MaxAttempts = 0 }},
		"max_attempts -0":       {`"max_attempts":-0.0`, func(j *delay.Job) { j.MaxAttempts = 0 }},
		"max_attempts 5.0":      {`"max_attempts":5.0`, func(j *delay.Job) { j.MaxAttempts = 5 }},
		"max_attempts 1e1":      {`"max_attempts":1e1`, func(j *delay.Job) { j.MaxAttempts = 10 }},
		"backoff empty":         {`"backoff":[]`, nil},
		"backoff":               {`"backoff":[1, "2s", -3]`, func(j *delay.Job) { j.Backoff = []time.Duration{time.Second, 2 * time.Second, 0} }},
		"backoff of 100":        {`"backoff":[` + hundred + `]`, func(j *delay.Job) { j.Backoff = slicesRepeat(time.Second, 100) }},
		"expires":               {`"expires":"1h"`, func(j *delay.Job) { j.Expires = time.Hour }},
		"expires 0":             {`"expires":0`, func(j *delay.Job) { j.Expires = ms }},
		"expires negative":      {`"expires":-9`, func(j *delay.Job) { j.Expires = ms }},
		"keep":                  {`"on_duplicate":"keep"`, nil},
		"replace":               {`"on_duplicate":"replace"`, func(j *delay.Job) { j.Replace = true }},
		"headers":               {`"headers":{"B":"2","A":["1","ü"],"C":[]}`, func(j *delay.Job) { j.Headers = []byte("A: 1\r\nA: ü\r\nB: 2\r\n") }},
		"body null":             {`"body":null`, func(j *delay.Job) { j.Body = []byte(`null`) }},
		"body kept as it is":    {`"body" : { "a" : 1e2, "a":"\u0041<" } `, func(j *delay.Job) { j.Body = []byte(`{ "a" : 1e2, "a":"\u0041<" }`) }},
		"a delivered job":       {`"attempt":"x","due_at":[1],"pushed_at":null`, nil},
		"number of many digits": {`"delay":0.` + strings.Repeat("0", 500) + `1`, func(j *delay.Job) { j.Delay = ms }},
		"number of many zeros":  {`"delay":1` + strings.Repeat("0", 500) + `e-500`, func(j *delay.Job) { j.Delay = time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload := strings.Replace(`{"topic":"t",`+row.fields+`}`, ",}", "}", 1)
			jobs, batch, f := decodePush("", nil, []byte(payload), testLimits())
			if f != nil || batch || len(jobs) != 1 || jobs[0].Fault != nil {
				t.Fatalf("got %+v, batch %v, fault %v", jobs, batch, f)
			}
			if diff := cmp.Diff(accepted(row.want), jobs[0].Job); diff != "" {
				t.Error(diff)
			}
			if string(jobs[0].Raw) != payload {
				t.Errorf("raw is %s instead of %s", jobs[0].Raw, payload)
			}
		})
	}
}

func slicesRepeat[T any](value T, n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = value
	}
	return list
}

func TestDecodePushRefuses(t *testing.T) {
	t.Parallel()
	names := make([]string, 65)
	for i := range names {
		names[i] = `"X-` + strings.Repeat("n", i+1) + `":"v"`
	}
	for name, row := range map[string]struct {
		fields string // beside topic
		code   int
		text   string // of the message
	}{
		"unknown field":         {`"dealy":5`, 400, `field dealy is unknown`},
		"letter case":           {`"Delay":5`, 400, `field Delay is unknown`},
		"look-alike":            {`"ıd":"a"`, 400, `field ıd is unknown`},
		"unknown, not printing": {`"a\u202e\u0000":5`, 400, `field a\u202e\u0000 is unknown`},
		"twice":                 {`"id":"a","id":"a"`, 400, `id is given twice`},
		"twice by an escape":    {`"id":"a","\u0069d":"b"`, 400, `id is given twice`},
		"twice with null":       {`"id":null,"id":"b"`, 400, `id is given twice`},
		"ignored twice":         {`"attempt":1,"attempt":2`, 400, `attempt is given twice`},
		"id number":             {`"id":5`, 400, `id is 5, allowed is a string`},
		"id with a control":     {`"id":"a\u0000b"`, 400, `id "a\u0000b" holds U+0000 at byte 1`},
		"id too long":           {`"id":"` + strings.Repeat("i", 257) + `"`, 400, `id "iii`},
		"topic other":           {`"topic":"u"`, 400, `topic is given twice`},
		"delay text":            {`"delay":"5"`, 400, `delay is "5", allowed is a number of seconds or a duration`},
		"delay true":            {`"delay":true`, 400, `delay is true`},
		"delay too long":        {`"delay":1790000000`, 400, `delay is 1790000000, allowed is up to 315360000 seconds (87600h0m0s): a length of time, as a number in seconds relative to the push; a moment goes into at`},
		"delay a ms too long":   {`"delay":315360000.0001`, 400, `delay is 315360000.0001`},
		"delay huge":            {`"delay":1e400`, 400, `up to 315360000 seconds`},
		"delay of many digits":  {`"delay":` + strings.Repeat("9", 500), 400, `99999..., allowed`},
		"delay monstrous":       {`"delay":1e999999999999999999999999`, 400, `up to 315360000 seconds`},
		"delay long string":     {`"delay":"87600h1ms"`, 400, `delay is "87600h1ms", allowed is up to`},
		"ttr":                   {`"ttr":9223372037`, 400, `ttr is 9223372037, allowed is up to`},
		"at and delay":          {`"at":1896076800,"delay":0`, 400, `at is given beside delay`},
		"at in milliseconds":    {`"at":1896076800000`, 400, `at is 1896076800000, allowed is an RFC 3339 moment`},
		"at lax":                {`"at":"2030-01-31T8:00:00Z"`, 400, `at is "2030-`},
		"at with a comma":       {`"at":"2030-01-31T08:00:00,5Z"`, 400, `at is "2030-`},
		"at without offset":     {`"at":"2030-01-31T08:00:00"`, 400, `at is "2030-`},
		"at a date":             {`"at":"2030-01-31"`, 400, `at is "2030-`},
		"at over 9999":          {`"at":"9999-12-31T23:59:59.9999Z"`, 400, `at is "9999-`},
		"at true":               {`"at":true`, 400, `at is true`},
		"max_attempts 1.5":      {`"max_attempts":1.5`, 400, `max_attempts is 1.5, allowed is a whole number from 0 to 1000000000`},
		"max_attempts -1":       {`"max_attempts":-1`, 400, `max_attempts is -1`},
		"max_attempts many":     {`"max_attempts":1000000001`, 400, `max_attempts is 1000000001`},
		"max_attempts string":   {`"max_attempts":"5"`, 400, `max_attempts is "5"`},
		"backoff number":        {`"backoff":5`, 400, `backoff is 5, allowed is an array`},
		"backoff entry":         {`"backoff":[1,true]`, 400, `backoff[1] is true`},
		"backoff null":          {`"backoff":[null]`, 400, `backoff[0] is null`},
		"backoff of 101":        {`"backoff":[` + strings.Repeat("1,", 100) + `1]`, 400, `backoff has too many entries`},
		"expires":               {`"expires":[]`, 400, `expires is []`},
		"on_duplicate":          {`"on_duplicate":"Keep"`, 400, `on_duplicate is "Keep", allowed is "keep" or "replace"`},
		"headers array":         {`"headers":[]`, 400, `headers is []`},
		"header number":         {`"headers":{"A":5}`, 400, `headers.A is 5`},
		"header null":           {`"headers":{"A":null}`, 400, `headers.A is null`},
		"header list":           {`"headers":{"A":["b",5]}`, 400, `headers.A is ["b",5]`},
		"header twice":          {`"headers":{"A":"b","\u0041":"b"}`, 400, `headers.A is given twice`},
		"header ours":           {`"headers":{"dQ-Foo":"b"}`, 400, `headers.dQ-Foo is reserved`},
		"header of NATS":        {`"headers":{"nats-msg-id":"b"}`, 400, `headers.nats-msg-id is reserved`},
		"header with colon":     {`"headers":{"A:":"b"}`, 400, `headers.A: is no header name`},
		"header without name":   {`"headers":{"":"b"}`, 400, `headers."" is no header name`},
		"header with a blank":   {`"headers":{"A b":"b"}`, 400, `headers.A b is no header name`},
		"header with a break":   {`"headers":{"A":"b\r\nC: d"}`, 400, `headers.A is "b\r\nC: d"`},
		"header list break":     {`"headers":{"A":["b\n"]}`, 400, `headers.A is ["b\n"]`},
		"header names":          {`"headers":{` + strings.Join(names, ",") + `}`, 413, `headers has 65 names`},
		"header bytes":          {`"headers":{"A":"` + strings.Repeat("b", 16<<10) + `"}`, 413, `headers has 16389 bytes`},
		"body too large":        {`"body":"` + strings.Repeat("b", 1_000_000) + `"`, 413, `body has 1000002 bytes, allowed are 1000000`},
		"body not UTF-8":        {"\"body\":\"\xff\xfe\"", 400, `invalid UTF-8 within "/body"`},
		"body lone surrogate":   {`"body":"\ud800"`, 400, `within "/body"`},
		"id lone surrogate":     {`"id":"\ud800"`, 400, `within "/id"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, _, f := decodePush("", nil, []byte(`{"topic":"t",`+row.fields+`}`), testLimits())
			if f == nil {
				f = jobs[0].Fault
			}
			checkFault(t, f, row.code, row.text)
		})
	}
}

func checkFault(t *testing.T, f *fault, code int, text string) {
	t.Helper()
	if f == nil || f.Code != code || !strings.Contains(f.Error(), text) {
		t.Fatalf("got %+v instead of %d %s", f, code, text)
	}
	if strings.ContainsFunc(f.Message, func(r rune) bool { return r < ' ' || r == 0x202e }) {
		t.Errorf("message %q is not fit for a terminal", f.Message)
	}
}

func TestDecodePushWhole(t *testing.T) {
	t.Parallel()
	job := `{"topic":"t"}`
	for payload, row := range map[string]struct {
		code int
		text string
	}{
		"":                         {400, "payload is empty, allowed is a job as a JSON object"},
		"  ":                       {400, "payload is empty"},
		"null":                     {400, "payload is null, allowed is"},
		`"x"`:                      {400, `payload is "x"`},
		"[]":                       {400, "array is empty, allowed are 1 to 1000"},
		"[" + job:                  {400, "ends too early"},
		"[" + job + ",]":           {400, "not valid JSON"},
		job + job:                  {400, `goes on after its JSON value at byte 13 with {"topic"`},
		job + ",":                  {400, "goes on after"},
		job + "\x00":               {400, `with \u0000`},
		"[" + job + "] x":          {400, "goes on after"},
		"\xef\xbb\xbf" + job:       {400, "byte order mark"},
		`{"topic":"t",}`:           {400, "not valid JSON"},
		`{1:2}`:                    {400, "not valid JSON"},
		`{"topic":"t","delay":.5}`: {400, `within "/delay"`},
		"[" + strings.Repeat(job+",", 1000) + job + "]": {413, "array has 1001 elements or more, allowed are 1000"},
		"[" + job + `,{"id":"` + "\xff" + `"}]`:         {400, "invalid UTF-8"},
	} {
		t.Run(excerpt(payload), func(t *testing.T) {
			t.Parallel()
			jobs, _, f := decodePush("", nil, []byte(payload), testLimits())
			checkFault(t, f, row.code, row.text)
			if jobs != nil {
				t.Errorf("has jobs %+v", jobs)
			}
		})
	}
}

func TestDecodePushIgnoresWhiteSpaceAround(t *testing.T) {
	t.Parallel()
	jobs, _, f := decodePush("", nil, []byte("\t {\"topic\" : \"t\"}\r\n"), testLimits())
	if f != nil || jobs[0].Fault != nil || string(jobs[0].Raw) != `{"topic" : "t"}` {
		t.Fatalf("got %+v, fault %v", jobs, f)
	}
}

func TestDecodePushBatch(t *testing.T) {
	t.Parallel()
	elements := []string{`{"topic":"t"}`, `{ "topic":"t" , "dealy":1}`, `5`, `[{"topic":"t"}]`, `{"topic":"t","id":"own"}`}
	payload := "[ " + strings.Join(elements, "\n, ") + " ]"
	header := nats.Header{"Nats-Msg-Id": {"m"}}
	jobs, batch, f := decodePush("", header, []byte(payload), testLimits())
	if f != nil || !batch || len(jobs) != len(elements) {
		t.Fatalf("got %+v, batch %v, fault %v", jobs, batch, f)
	}
	for i, want := range []struct{ id, fault string }{
		{"m-0", ""}, {"", "dealy"}, {"", "job is 5"}, {"", `job is [{"topic"`}, {"own", ""},
	} {
		got := jobs[i]
		if got.Fault == nil && (want.fault != "" || got.Job.ID != want.id) {
			t.Errorf("%d: got %+v instead of %+v", i, got.Job, want)
		}
		if got.Fault != nil && (want.fault == "" || !strings.Contains(got.Fault.Message, want.fault)) {
			t.Errorf("%d: got %v instead of %+v", i, got.Fault, want)
		}
		if string(got.Raw) != elements[i] {
			t.Errorf("%d: raw is %s instead of %s", i, got.Raw, elements[i])
		}
	}
}

func TestDecodePushKeepsNoPayload(t *testing.T) {
	t.Parallel()
	payload := []byte(`{"topic":"mail","id":"a","body":{"n":1},"headers":{"A":"b"}}`)
	jobs, _, _ := decodePush("", nil, payload, testLimits())
	for i := range payload {
		payload[i] = '#'
	}
	want := delay.Job{ID: "a", Topic: "mail", TTR: time.Minute, MaxAttempts: 7, Body: []byte(`{"n":1}`), Headers: []byte("A: b\r\n")}
	if diff := cmp.Diff(want, jobs[0].Job); diff != "" {
		t.Error(diff)
	}
}

func TestDecodePushTopicOfSubject(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		topic, payload, text string
	}{
		"left out":     {"mail.eu", `{}`, ""},
		"null":         {"mail.eu", `{"topic":null}`, ""},
		"the same":     {"mail.eu", `{"topic":"mail.eu"}`, ""},
		"escaped":      {"mail.eu", `{"topic":"mail\u002eeu"}`, ""},
		"another":      {"mail.eu", `{"topic":"mail.us"}`, `topic is "mail.us", allowed is the subject's topic mail.eu`},
		"empty":        {"mail.eu", `{"topic":""}`, `topic is "", allowed`},
		"bad subject":  {"mail.\u200b", `{}`, `topic mail.\u200b holds U+200B`},
		"other number": {"mail.eu", `{"topic":5}`, `topic is 5`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, _, f := decodePush(row.topic, nil, []byte(row.payload), testLimits())
			if f == nil {
				f = jobs[0].Fault
			}
			if row.text != "" {
				checkFault(t, f, 400, row.text)
			} else if f != nil || jobs[0].Job.Topic != row.topic {
				t.Errorf("got %+v, fault %v", jobs, f)
			}
		})
	}
}
