package bridge_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// look is a job as dq.admin.get and list give it; what may be left out is a pointer.
type look struct {
	ID          string              `json:"id"`
	Topic       string              `json:"topic"`
	State       string              `json:"state"`
	Attempt     int                 `json:"attempt"`
	DueAt       *time.Time          `json:"due_at"`
	FirstDueAt  *time.Time          `json:"first_due_at"`
	DeadlineAt  *time.Time          `json:"deadline_at"`
	PushedAt    time.Time           `json:"pushed_at"`
	Delay       json.Number         `json:"delay"`
	TTR         json.Number         `json:"ttr"`
	MaxAttempts int                 `json:"max_attempts"`
	Backoff     []json.Number       `json:"backoff"`
	Expires     *json.Number        `json:"expires"`
	Headers     map[string][]string `json:"headers"`
	Body        json.RawMessage     `json:"body"`
	BodyBase64  *string             `json:"body_base64"`
	BodyBytes   *int                `json:"body_bytes"`
	DeadReason  *string             `json:"dead_reason"`
	DeadAt      *time.Time          `json:"dead_at"`
}

// admin sends an admin request.
func (r *rig) admin(t *testing.T, verb, payload string) reply {
	t.Helper()
	return r.ask(t, r.msg("admin."+verb, payload))
}

// must sends an admin request that must be carried out and gives its data.
func must[T any](t *testing.T, r *rig, verb, payload string) T {
	t.Helper()
	answer := r.admin(t, verb, payload)
	if answer.Code != 200 || answer.Message != "" || len(answer.header) > 0 {
		t.Fatalf("%s %.200s: %.500s %v", verb, payload, answer.raw, answer.header)
	}
	return decoded[T](t, answer)
}

// said checks the whole of an answer that is 200.
func said(t *testing.T, answer reply, data string) {
	t.Helper()
	if want := `{"code":200,"message":"","data":` + data + `}`; answer.raw != want || len(answer.header) > 0 {
		t.Errorf("replied %.500s %v instead of %s", answer.raw, answer.header, want)
	}
}

// look reads a job that must be there.
func (r *rig) look(t *testing.T, id string) look {
	t.Helper()
	return must[look](t, r, "get", fmt.Sprintf(`{"id":%q}`, id))
}

// is waits until a job is in a state: a probe of a topic that nobody listens to makes it inflight for a moment.
func (r *rig) is(t *testing.T, id, state string) look {
	t.Helper()
	var job look
	testenv.Eventually(t, patience, func() bool {
		job = r.look(t, id)
		return job.State == state
	}, "the job "+id+" is "+state)
	return job
}

// confirmed waits until Redis knows of a delivery that it is certain: its deadline is then that of a TTR, not of a lease.
func (r *rig) confirmed(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		testenv.Eventually(t, patience, func() bool {
			job := r.look(t, id)
			return job.State == "inflight" && time.Until(*job.DeadlineAt) > delay.LeaseTime
		}, "the delivery of "+id+" is confirmed")
	}
}

// gone checks that there is no job with an id.
func (r *rig) gone(t *testing.T, id string) {
	t.Helper()
	refused(t, r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)), 404, id)
}

// topicLine is a topic as dq.admin.topics gives it.
type topicLine struct {
	Topic                          string
	Delayed, Ready, Inflight, Dead int
	Listening                      *bool
	Paused                         bool
	Oldest                         *float64 `json:"oldest_ready_s"`
}

type topicPage struct {
	Topics []topicLine
	Cursor string
}

// topic reads the figures of one topic; none where it has no jobs.
func (r *rig) topic(t *testing.T, name string) topicLine {
	t.Helper()
	for cursor := ""; ; {
		page := must[topicPage](t, r, "topics", fmt.Sprintf(`{"match":%q,"cursor":%q}`, name, cursor))
		for _, line := range page.Topics {
			if line.Topic == name {
				return line
			}
		}
		if cursor = page.Cursor; cursor == "" {
			return topicLine{}
		}
	}
}

// watch subscribes as a worker whose deliveries are no part of the history: a kick begins the attempts anew.
func (r *rig) watch(t *testing.T, topic string) *worker {
	t.Helper()
	return r.join(t, r.nc, &worker{}, topic, "")
}

// bring stores a job under its id as topic and takes it to a state, which it keeps. It gives the delivery of one in
// flight. more are fields of the push.
func (r *rig) bring(t *testing.T, id, state, more string) *delivery {
	t.Helper()
	fields := map[string]string{"delayed": `"delay":600`, "dead": `"delay":600`, "ready": `"ttr":600`, "inflight": `"ttr":600`}[state]
	if state == "ready" {
		said(t, r.admin(t, "pause", fmt.Sprintf(`{"topic":%q}`, id)), fmt.Sprintf(`{"topic":%q,"paused":true}`, id))
	}
	var w *worker
	if state == "inflight" {
		w = r.watch(t, id)
	}
	r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,%s%s}`, id, id, fields, more))
	switch state {
	case "dead":
		said(t, r.ask(t, r.msg("bury", id)), fmt.Sprintf(`{"id":%q,"state":"dead"}`, id))
	case "inflight":
		d := w.next(t).is(t, id, 1)
		testenv.Eventually(t, patience, func() bool { return time.Until(*r.look(t, id).DeadlineAt) > 5*time.Minute }, "the TTR runs")
		return d
	}
	return nil
}

// pop asks for a job and gives the answer as it came.
func (r *rig) pop(t *testing.T, topic, payload string) *nats.Msg {
	t.Helper()
	answer, err := r.nc.Request(r.subject("pop."+topic), []byte(payload), 2*patience)
	if err != nil {
		t.Fatalf("pop of %s %s: %v", topic, payload, err)
	}
	return answer
}

// popped asks for a job, which there must be.
func (r *rig) popped(t *testing.T, topic, payload string) *delivery {
	t.Helper()
	answer := r.pop(t, topic, payload)
	if answer.Header.Get("Dq-Ack") == "" || answer.Reply != answer.Header.Get("Dq-Ack") {
		t.Fatalf("pop of %s %s gives %s %v, reply subject %q", topic, payload, answer.Data, answer.Header, answer.Reply)
	}
	return &delivery{Msg: answer, at: time.Now(), w: &worker{rig: r}}
}

// none asks for a job, which there must not be.
func (r *rig) none(t *testing.T, topic, payload, message string) {
	t.Helper()
	refused(t, envelopeOf(t, r.pop(t, topic, payload)), 404, message)
}

// near checks that a moment is a while after a span in which something was asked for, to a millisecond or two.
func near(t *testing.T, what string, at *time.Time, from, to time.Time, while time.Duration) {
	t.Helper()
	if at == nil {
		t.Errorf("%s is not told", what)
		return
	}
	if at.Before(from.Add(while).Truncate(time.Millisecond).Add(-time.Millisecond)) || at.After(to.Add(while+3*time.Millisecond)) {
		t.Errorf("%s is %v after the request instead of %v", what, at.Sub(from), while)
	}
}
