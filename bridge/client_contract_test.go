package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// subject puts the prefix before a subject of the contract.
func (r *rig) subject(tail string) string { return r.Prefix + "." + tail }

// msg makes a message to the bridge; headers are "Name: value".
func (r *rig) msg(tail, payload string, headers ...string) *nats.Msg {
	msg := nats.NewMsg(r.subject(tail))
	msg.Data = []byte(payload)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		msg.Header[name] = append(msg.Header[name], value)
	}
	return msg
}

// send publishes without a reply subject and waits until the server has it.
func (r *rig) send(t *testing.T, msg *nats.Msg) {
	t.Helper()
	if err := errors.Join(r.nc.PublishMsg(msg), r.nc.FlushTimeout(patience)); err != nil {
		t.Fatal(err)
	}
}

// reply is the envelope of an answer, and the message that it came in.
type reply struct {
	Code    int
	Message string
	Data    json.RawMessage
	raw     string
	header  nats.Header
}

func (r *rig) ask(t *testing.T, msg *nats.Msg) reply {
	t.Helper()
	answer, err := r.nc.RequestMsg(msg, patience)
	if err != nil {
		t.Fatalf("%s %.200s: %v", msg.Subject, msg.Data, err)
	}
	return envelopeOf(t, answer)
}

func envelopeOf(t *testing.T, answer *nats.Msg) reply {
	t.Helper()
	envelope := reply{raw: string(answer.Data), header: answer.Header}
	if err := json.Unmarshal(answer.Data, &envelope); err != nil {
		t.Fatalf("the reply %s %v is no envelope: %v", answer.Data, answer.Header, err)
	}
	return envelope
}

// pushed is the data of the reply to a push.
type pushed struct {
	ID        string
	DueAt     time.Time `json:"due_at"`
	Duplicate bool
	State     string
}

// push stores jobs that must be taken.
func (r *rig) push(t *testing.T, payload string, headers ...string) pushed {
	t.Helper()
	return r.pushMsg(t, r.msg("push", payload, headers...))
}

func (r *rig) pushMsg(t *testing.T, msg *nats.Msg) pushed {
	t.Helper()
	answer := r.ask(t, msg)
	var p pushed
	if err := json.Unmarshal(answer.Data, &p); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("push of %.200s: %.500s (%v)", msg.Data, answer.raw, err)
	}
	return p
}

// finish removes a job by its id and gives how many there were.
func (r *rig) finish(t *testing.T, id string) int {
	t.Helper()
	payload, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	n := finished(t, r.ask(t, r.msg("finish", string(payload))))
	r.history.finished(id)
	return n
}

// finished reads the reply to a finish, which must be 200.
func finished(t *testing.T, answer reply) int {
	t.Helper()
	var data struct{ Finished *int }
	if err := json.Unmarshal(answer.Data, &data); err != nil || answer.Code != http.StatusOK || data.Finished == nil {
		t.Fatalf("reply to a finish: %s (%v)", answer.raw, err)
	}
	return *data.Finished
}

// emptied waits until Redis holds nothing of the rig but what belongs to no job.
func (r *rig) emptied(t *testing.T) {
	t.Helper()
	var left []string
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for check := time.NewTicker(10 * time.Millisecond); ; {
		if left = r.leftovers(t); len(left) == 0 {
			check.Stop()
			return
		}
		select {
		case <-check.C:
		case <-deadline.C:
			check.Stop()
			t.Fatalf("Redis still holds %q", left)
		}
	}
}

// leftovers are the keys of the rig that belong to jobs, and the counters that are not zero.
func (r *rig) leftovers(t *testing.T) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it also looks when the test is over
	var left []string
	found := r.redis.Client().Scan(ctx, 0, r.Prefix+":*", 1000).Iterator()
	for found.Next(ctx) {
		key := found.Val()
		tail := key[strings.LastIndexByte(key, ':')+1:]
		switch {
		case strings.HasPrefix(key, r.Prefix+":meta"), tail == "clock":
		case tail == "topics":
			counts, err := r.redis.Client().HGetAll(ctx, key).Result()
			if err != nil {
				t.Fatal(err)
			}
			for field, n := range counts {
				if n != "0" || len(field) > 1 {
					left = append(left, key+" "+field+"="+n)
				}
			}
		default:
			left = append(left, key)
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return left
}

// decoded reads the data of a reply.
func decoded[T any](t *testing.T, answer reply) T {
	t.Helper()
	var data T
	if err := json.Unmarshal(answer.Data, &data); err != nil {
		t.Fatalf("%s: %v", answer.raw, err)
	}
	return data
}
