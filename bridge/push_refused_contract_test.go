package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// refused checks the answer to a request that was not carried out.
func refused(t *testing.T, answer reply, code int, texts ...string) {
	t.Helper()
	if answer.Code != code || answer.Message == "" {
		t.Errorf("replied %s instead of code %d", answer.raw, code)
	}
	for _, text := range texts {
		if !strings.Contains(answer.Message, text) {
			t.Errorf("message %q lacks %q", answer.Message, text)
		}
	}
	if got := answer.header.Get("Nats-Service-Error-Code"); got != strconv.Itoa(code) {
		t.Errorf("header Nats-Service-Error-Code is %q", got)
	}
	if got := answer.header.Get("Nats-Service-Error"); got != answer.Message {
		t.Errorf("header Nats-Service-Error is %q instead of %q", got, answer.Message)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		msg   *nats.Msg
		code  int
		texts []string // of the message: the field, what it held
	}{
		"no JSON":              {r.msg("push", `hello`), 400, []string{"payload"}},
		"empty":                {r.msg("push", ``), 400, []string{"payload"}},
		"JSON and more":        {r.msg("push", `{"topic":"t"} x`), 400, []string{"payload", "x"}},
		"two jobs":             {r.msg("push", `{"topic":"t"}{"topic":"t"}`), 400, []string{"payload"}},
		"a number":             {r.msg("push", `5`), 400, []string{"payload", "5"}},
		"invalid UTF-8":        {r.msg("push", "{\"topic\":\"t\",\"id\":\"a\xff\"}"), 400, []string{"UTF-8"}},
		"byte order mark":      {r.msg("push", "\xef\xbb\xbf{\"topic\":\"t\"}"), 400, []string{"byte order mark"}},
		"empty array":          {r.msg("push", `[]`), 400, []string{"array"}},
		"no topic":             {r.msg("push", `{"id":"a"}`), 400, []string{"topic"}},
		"topic null":           {r.msg("push", `{"topic":null}`), 400, []string{"topic"}},
		"topic with a space":   {r.msg("push", `{"topic":"a b"}`), 400, []string{"topic", "a b"}},
		"topic with a star":    {r.msg("push", `{"topic":"a.*"}`), 400, []string{"topic", "a.*"}},
		"topic, empty token":   {r.msg("push", `{"topic":"a..b"}`), 400, []string{"topic", "a..b"}},
		"topic of 201 bytes":   {r.msg("push", `{"topic":"`+strings.Repeat("t", 201)+`"}`), 400, []string{"topic", "201"}},
		"topic of 17 tokens":   {r.msg("push", `{"topic":"t`+strings.Repeat(".t", 16)+`"}`), 400, []string{"topic", "17"}},
		"another topic":        {r.msg("push.mail", `{"topic":"sms"}`), 400, []string{"topic", "sms", "mail"}},
		"subject with a star":  {r.msg("push.a*b", `{}`), 400, []string{"topic", "a*b"}},
		"id with a line break": {r.msg("push", `{"id":"a\nb","topic":"t"}`), 400, []string{"id", `a\nb`}},
		"id of 257 bytes":      {r.msg("push", `{"id":"`+strings.Repeat("i", 257)+`","topic":"t"}`), 400, []string{"id", "257"}},
		"id a number":          {r.msg("push", `{"id":7,"topic":"t"}`), 400, []string{"id", "7"}},
		"message id":           {r.msg("push", `{"topic":"t"}`, "Nats-Msg-Id: a\u200bb"), 400, []string{"Nats-Msg-Id"}},
		"misspelt":             {r.msg("push", `{"topic":"t","dealy":5}`), 400, []string{"dealy", "delay"}},
		"letter case":          {r.msg("push", `{"topic":"t","Delay":5}`), 400, []string{"Delay"}},
		"name twice":           {r.msg("push", `{"topic":"t","topic":"t"}`), 400, []string{"topic", "twice"}},
		"delay and at":         {r.msg("push", `{"topic":"t","delay":1,"at":1}`), 400, []string{"at", "delay"}},
		"delay too long":       {r.msg("push", `{"topic":"t","delay":315360001}`), 400, []string{"delay", "315360001", "315360000"}},
		"delay a moment":       {r.msg("push", `{"topic":"t","delay":1790000000}`), 400, []string{"delay", "at"}},
		"delay a word":         {r.msg("push", `{"topic":"t","delay":"soon"}`), 400, []string{"delay", "soon"}},
		"at too far":           {r.msg("push", `{"topic":"t","at":"2999-01-01T00:00:00Z"}`), 400, []string{"at"}},
		"at no moment":         {r.msg("push", `{"topic":"t","at":"tomorrow"}`), 400, []string{"at", "tomorrow"}},
		"ttr too long":         {r.msg("push", `{"topic":"t","ttr":"87601h"}`), 400, []string{"ttr", "87601h"}},
		"ttr true":             {r.msg("push", `{"topic":"t","ttr":true}`), 400, []string{"ttr", "true"}},
		"attempts negative":    {r.msg("push", `{"topic":"t","max_attempts":-1}`), 400, []string{"max_attempts", "-1"}},
		"attempts 1.5":         {r.msg("push", `{"topic":"t","max_attempts":1.5}`), 400, []string{"max_attempts", "1.5"}},
		"backoff no array":     {r.msg("push", `{"topic":"t","backoff":5}`), 400, []string{"backoff", "5"}},
		"backoff entry":        {r.msg("push", `{"topic":"t","backoff":[1,"x"]}`), 400, []string{"backoff[1]", "x"}},
		"backoff of 101":       {r.msg("push", `{"topic":"t","backoff":[0`+strings.Repeat(",0", 100)+`]}`), 400, []string{"backoff", "100"}},
		"on duplicate":         {r.msg("push", `{"topic":"t","on_duplicate":"drop"}`), 400, []string{"on_duplicate", "drop"}},
		"header reserved":      {r.msg("push", `{"topic":"t","headers":{"Nats-Rollup":"all"}}`), 400, []string{"headers.Nats-Rollup"}},
		"header of ours":       {r.msg("push", `{"topic":"t","headers":{"dq-id":"x"}}`), 400, []string{"headers.dq-id"}},
		"header with a break":  {r.msg("push", `{"topic":"t","headers":{"X":"a\r\nb"}}`), 400, []string{"headers.X"}},
		"unknown header":       {r.msg("push", `{"topic":"t"}`, "Dq-Dealy: 5"), 400, []string{"Dq-Dealy"}},
		"header twice":         {r.msg("push", `x`, "Dq-Topic: t", "Dq-Delay: 5", "Dq-Delay: 6"), 400, []string{"Dq-Delay", "twice"}},
		"header form, no topic": {
			r.msg("push", `x`, "Dq-Delay: 5"), 400, []string{"topic"},
		},
		"header form, delay": {r.msg("push", `x`, "Dq-Topic: t", "Dq-Delay: soon"), 400, []string{"Dq-Delay", "soon"}},
		"headers of 65 names": {
			r.msg("push", `{"topic":"t"}`, headerNames(65)...), 413, []string{"headers", "65", "64"},
		},
		"headers of 16 KiB": {
			r.msg("push", `{"topic":"t"}`, "X: "+strings.Repeat("x", 16<<10)), 413, []string{"headers", "16384"},
		},
		"body too large": {
			r.msg("push", `{"topic":"t","body":"`+strings.Repeat("x", 1_000_000-1)+`"}`), 413, []string{"body", "1000001", "1000000"},
		},
		"raw body too large": {
			r.msg("push", strings.Repeat("x", 1_000_001), "Dq-Topic: t"), 413, []string{"body", "1000001", "1000000"},
		},
		"array of 1001": {
			r.msg("push", `[{"topic":"t"}`+strings.Repeat(`,{"topic":"t"}`, 1000)+`]`), 413, []string{"array", "1000"},
		},
		"array cut": {r.msg("push", `[{"topic":"t"},{"topic":"t"}`), 400, []string{"payload"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := r.ask(t, row.msg)
			refused(t, answer, row.code, row.texts...)
			if string(answer.Data) != "null" {
				t.Errorf("data is %s", answer.Data)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

func headerNames(n int) []string {
	var headers []string
	for i := range n {
		headers = append(headers, fmt.Sprintf("X-%d: x", i))
	}
	return headers
}

// TestPushInputs sends the payloads of testdata/inputs.jsonl through the whole bridge.
func TestPushInputs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, in := range readInputs(t) {
		t.Run(in.N, func(t *testing.T) {
			t.Parallel()
			own := []byte(`"id":"` + in.N + `"`)
			payload := bytes.ReplaceAll(in.Payload, []byte(`"id":"m"`), own)
			payload = bytes.ReplaceAll(payload, []byte(`"\u0069d":"m"`), []byte(`"\u0069d":"`+in.N+`"`))
			answer := r.ask(t, r.msg(strings.TrimPrefix(in.Subject, "dq."), string(payload)))
			if in.Verdict != "ACCEPT" {
				if answer.Code != 400 && answer.Code != 413 {
					t.Fatalf("replied %.500s", answer.raw)
				}
				refused(t, answer, answer.Code, in.Field)
			} else if answer.Code != http.StatusOK {
				t.Errorf("replied %.500s", answer.raw)
			}
		})
	}
}

type input struct {
	N, Subject, Verdict, Field, Generate string
	Payload                              []byte `json:"payload_b64"`
}

// readInputs gives the inputs that the file holds as they are; those it only describes are tests of the decoder.
func readInputs(t *testing.T) []input {
	t.Helper()
	file, err := os.ReadFile("testdata/inputs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var inputs []input
	for _, line := range strings.Split(string(file), "\n") {
		var in input
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			t.Fatal(err)
		}
		if in.Generate == "" {
			inputs = append(inputs, in)
		}
	}
	if len(inputs) < 100 {
		t.Fatalf("only %d inputs", len(inputs))
	}
	return inputs
}
