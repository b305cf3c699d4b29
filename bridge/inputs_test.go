package bridge

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// input is one line of testdata/inputs.jsonl: an exact payload, or how to make it, and what becomes of it.
type input struct {
	N, Subject, Verdict, Field, Generate string
	Bytes                                int
	Payload                              []byte `json:"payload_b64"`
}

func TestInputs(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/inputs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(file) {
		var in input
		if err := json.Unmarshal(line, &in); err != nil {
			t.Fatal(err)
		}
		t.Run(in.N, func(t *testing.T) {
			t.Parallel()
			checkInput(t, in)
		})
	}
}

func checkInput(t *testing.T, in input) {
	t.Helper()
	if in.Generate != "" {
		in.Payload = generate(t, in)
	}
	start := time.Now()
	f := inputFault(t, in)
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	if (in.Verdict == "ACCEPT") != (f == nil) {
		t.Fatalf("%s, got %v, payload %s", in.Verdict, f, excerpt(string(in.Payload)))
	}
	if f == nil {
		return
	}
	if !strings.Contains(f.Message, in.Field) {
		t.Errorf("names no %s: %s", in.Field, f.Message)
	}
	if f.Code != 400 && f.Code != 413 || len(f.Message) > 600 {
		t.Errorf("code %d, %d bytes: %s", f.Code, len(f.Message), f.Message)
	}
}

func inputFault(t *testing.T, in input) *fault {
	t.Helper()
	if in.Subject == "dq.finish" {
		items, _, f := decodeSettle(verbFinish, in.Payload, testLimits())
		if f == nil {
			f = items[0].Fault
		}
		return f
	}
	jobs, _, f := decodePush("", nil, in.Payload, testLimits())
	if f == nil {
		f = jobs[0].Fault
	}
	return f
}

// generate makes a payload that the file only describes.
func generate(t *testing.T, in input) []byte {
	t.Helper()
	job := func(id, body string) string {
		return `{"id":"` + id + `","topic":"t","delay":0,"ttr":30,"body":` + body + `}`
	}
	nested := func(deep int) string { return strings.Repeat("[", deep) + strings.Repeat("]", deep) }
	var made string
	switch in.Generate {
	case "id = `i` x 900,000":
		made = job(strings.Repeat("i", 900_000), `"x"`)
	case "whole payload padded to exactly 1,048,576 bytes":
		made = job("m", `"`+strings.Repeat("x", in.Bytes-len(job("m", `""`)))+`"`)
	case "body = `\\u0001` x 160,000 (960 KB on the wire, 160 KB decoded)":
		made = job("m", `"`+strings.Repeat(`\u0001`, 160_000)+`"`)
	case "`[` x 900,000":
		made = strings.Repeat("[", 900_000)
	case "same, 10,001 deep":
		made = job("m", `"x","x":`+nested(10_001))
	default:
		t.Fatalf("no generator for %q", in.Generate)
	}
	if delta := len(made) - in.Bytes; delta < -2 || delta > 2 {
		t.Fatalf("made %d bytes instead of %d", len(made), in.Bytes)
	}
	return []byte(made)
}
