package bridge

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// FuzzDecodePush holds every payload against what a job may be.
func FuzzDecodePush(f *testing.F) {
	for _, seed := range []string{
		benchJob, `[{"topic":"t","at":1e9,"headers":{"A":["b","c"]},"backoff":["1s",2]},5]`, `{"topic":"\u0041\ud83d\ude42"}`,
		`{"topic":"t","on_duplicate":"replace","expires":-1,"max_attempts":1e1,"body":{"a":[1,{"b":null}]}}`, "[[", "\xef\xbb\xbf{}",
	} {
		f.Add("", "id", []byte(seed))
		f.Add("mail", "", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, topic, msgID string, data []byte) {
		header := nats.Header{"X-A": {"b"}}
		if msgID != "" {
			header["Nats-Msg-Id"] = []string{msgID}
		}
		jobs, _, whole := decodePush(topic, header, data, testLimits())
		if whole != nil {
			if jobs != nil || whole.Code < 400 || len(whole.Message) > 700 {
				t.Fatalf("fault %+v beside jobs %+v", whole, jobs)
			}
			return
		}
		for _, p := range jobs {
			checkPushed(t, p, data)
		}
	})
}

func checkPushed(t *testing.T, p pushed, data []byte) {
	t.Helper()
	if !bytes.Contains(data, p.Raw) {
		t.Fatalf("raw %q is not of the payload", p.Raw)
	}
	if p.Fault != nil {
		return
	}
	job, lim := p.Job, testLimits()
	if err := delay.CheckTopic(job.Topic); err != nil {
		t.Fatalf("topic %q: %v", job.Topic, err)
	}
	if err := delay.CheckID(job.ID); err != nil && job.ID != "" {
		t.Fatalf("id %q: %v", job.ID, err)
	}
	if !bytes.Contains(data, job.Body) && string(job.Body) != `""` || !json.Valid(job.Body) {
		t.Fatalf("body %q is not of the payload", job.Body)
	}
	for _, d := range append(job.Backoff, job.Delay, job.TTR, job.Expires) {
		if d < 0 || d > lim.MaxDelay || d%time.Millisecond != 0 {
			t.Fatalf("duration %v", d)
		}
	}
	if h := decodeHeaders(job.Headers); len(h["X-A"]) == 0 && !bytes.Contains(p.Raw, []byte("headers")) || !bytes.Equal(encodeHeaders(h), job.Headers) {
		t.Fatalf("headers %q", job.Headers)
	}
	// What was taken once is taken again, and the same.
	again, _, f := decodePush("", nil, p.Raw, lim)
	if f == nil && again[0].Fault == nil && !bytes.Equal(again[0].Job.Body, job.Body) {
		t.Fatalf("second time: %+v", again[0].Job)
	}
}
