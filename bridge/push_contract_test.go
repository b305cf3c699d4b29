package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const wireTime = "2006-01-02T15:04:05.000Z"

func TestPushReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		msg *nats.Msg
		id  string // empty: a UUIDv7
	}{
		"id":                       {r.msg("push", `{"id":"a","topic":"t","delay":99}`), "a"},
		"no id":                    {r.msg("push", `{"topic":"t","delay":99}`), ""},
		"id null":                  {r.msg("push", `{"id":null,"topic":"t","delay":99}`), ""},
		"id empty":                 {r.msg("push", `{"id":"","topic":"t","delay":99}`), ""},
		"message id":               {r.msg("push", `{"topic":"t","delay":99}`, "Nats-Msg-Id: m1"), "m1"},
		"message id, id null":      {r.msg("push", `{"id":null,"topic":"t","delay":99}`, "Nats-Msg-Id: m2"), "m2"},
		"message id, id empty":     {r.msg("push", `{"id":"","topic":"t","delay":99}`, "Nats-Msg-Id: m3"), "m3"},
		"message id and own id":    {r.msg("push", `{"id":"own","topic":"t","delay":99}`, "Nats-Msg-Id: m4"), "own"},
		"topic of the subject":     {r.msg("push.mail", `{"id":"b","delay":99}`), "b"},
		"topic of both":            {r.msg("push.mail.eu", `{"id":"c","topic":"mail.eu","delay":99}`), "c"},
		"white space around":       {r.msg("push", " \r\n\t{\"id\":\"d\",\"topic\":\"t\",\"delay\":99}\n "), "d"},
		"header form":              {r.msg("push", "\x00\xff", "Dq-Topic: t", "Dq-Id: e", "Dq-Delay: 99"), "e"},
		"header form, no id":       {r.msg("push", "{", "Dq-Topic: t", "Dq-Delay: 1h"), ""},
		"header form, message id":  {r.msg("push", "", "Dq-Topic: t", "Nats-Msg-Id: m5", "Dq-Delay: 99"), "m5"},
		"header form, topic twice": {r.msg("push.mail", "x", "Dq-Topic: mail", "Dq-Id: f", "Dq-Delay: 99"), "f"},
		"header form, subject":     {r.msg("push.mail", "x", "Dq-Delay: 99", "Dq-Id: g"), "g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := r.ask(t, row.msg)
			var p pushed
			if err := json.Unmarshal(answer.Data, &p); err != nil {
				t.Fatalf("%s: %v", answer.raw, err)
			}
			if row.id == "" {
				if id, err := uuid.Parse(p.ID); err != nil || id.Version() != 7 || id.String() != p.ID {
					t.Errorf("id %q is no UUIDv7 (%v)", p.ID, err)
				}
			} else if p.ID != row.id {
				t.Errorf("id %q instead of %q", p.ID, row.id)
			}
			want := fmt.Sprintf(`{"code":200,"message":"","data":{"id":%q,"due_at":%q,"duplicate":false}}`,
				p.ID, p.DueAt.UTC().Format(wireTime))
			if answer.raw != want || len(answer.header) > 0 {
				t.Errorf("replied %s %v instead of %s", answer.raw, answer.header, want)
			}
		})
	}
}

// TestPushDue holds the reply's due time against the local clock, which is Redis's too.
func TestPushDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	moment := time.Now().Add(99 * time.Hour).Truncate(time.Second).Add(250 * time.Millisecond)
	for name, row := range map[string]struct {
		fields string
		delay  time.Duration
		at     time.Time // set: delay does not count
	}{
		"absent":          {``, 0, time.Time{}},
		"null":            {`,"delay":null,"at":null`, 0, time.Time{}},
		"0":               {`,"delay":0`, 0, time.Time{}},
		"negative":        {`,"delay":-5`, 0, time.Time{}},
		"negative string": {`,"delay":"-1h"`, 0, time.Time{}},
		"fraction":        {`,"delay":0.25`, 250 * time.Millisecond, time.Time{}},
		"1.1":             {`,"delay":1.1`, 1100 * time.Millisecond, time.Time{}},
		"rounded up":      {`,"delay":0.0001`, time.Millisecond, time.Time{}},
		"exponent":        {`,"delay":1e1`, 10 * time.Second, time.Time{}},
		"1m30s":           {`,"delay":"1m30s"`, 90 * time.Second, time.Time{}},
		"250ms":           {`,"delay":"250ms"`, 250 * time.Millisecond, time.Time{}},
		"the longest":     {`,"delay":"87600h"`, 87600 * time.Hour, time.Time{}},
		"at":              {`,"at":"` + moment.UTC().Format(time.RFC3339Nano) + `"`, 0, moment},
		"at with a zone":  {`,"at":"` + moment.In(time.FixedZone("", 5400)).Format(time.RFC3339Nano) + `"`, 0, moment},
		"at as a number":  {fmt.Sprintf(`,"at":%d.25`, moment.Unix()), 0, moment},
		"at rounded up":   {fmt.Sprintf(`,"at":%d.2491`, moment.Unix()), 0, moment},
		"at in the past":  {`,"at":"2001-01-01T00:00:00Z"`, 0, time.Time{}},
		"at before 1970":  {`,"at":-5`, 0, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			p := r.push(t, `{"topic":"due"`+row.fields+`}`)
			after := time.Now()
			if !row.at.IsZero() {
				if !p.DueAt.Equal(row.at) {
					t.Errorf("due at %v instead of %v", p.DueAt, row.at)
				}
				return
			}
			// A job that is due now may be due at the beginning of the present millisecond, any other never earlier.
			first, last := before.Add(row.delay), after.Add(row.delay+time.Millisecond)
			if row.delay == 0 {
				first = first.Truncate(time.Millisecond)
			}
			if p.DueAt.Before(first) || p.DueAt.After(last) {
				t.Errorf("due at %v, not between %v and %v", p.DueAt, first, last)
			}
		})
	}
}

func TestPushDuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		fields string
		listen bool
		verb   string // sent on the first delivery
		state  string
	}{
		"delayed":   {`"delay":99`, false, "", "delayed"},
		"ready":     {`"delay":0`, false, "", "ready"},
		"in flight": {`"delay":0`, true, "+WPI", "inflight"},
		"released":  {`"delay":0`, true, `-NAK {"delay": 99000000000}`, "delayed"},
		"dead":      {`"delay":0`, true, "+TERM", "dead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "dup." + strings.ReplaceAll(name, " ", "_")
			payload := fmt.Sprintf(`{"id":%q,"topic":%q,%s}`, topic, topic, row.fields)
			var w *worker
			if row.listen {
				w = r.work(t, topic)
			}
			due := r.push(t, payload).DueAt
			if row.listen {
				if next := w.next(t).settle(t, row.verb); !next.DueAt.IsZero() {
					due = next.DueAt
				}
			}
			for _, again := range []string{payload, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":1,"body":"other"}`, topic, topic)} {
				want := fmt.Sprintf(`{"code":200,"message":"","data":{"id":%q,"due_at":%q,"duplicate":true,"state":%q}}`,
					topic, due.UTC().Format(wireTime), row.state)
				var got string
				// A held job is in flight while a delivery of it is tried; any other has its state for good.
				testenv.Eventually(t, patience, func() bool {
					got = r.ask(t, r.msg("push", again)).raw
					return row.state != "ready" || got == want
				}, "a duplicate is answered with "+want)
				if got != want {
					t.Errorf("replied %s instead of %s", got, want)
				}
			}
			other := r.ask(t, r.msg("push", fmt.Sprintf(`{"id":%q,"topic":"elsewhere"}`, topic)))
			refused(t, other, 409, topic)
			if n := r.finish(t, topic); n != 1 {
				t.Errorf("%d jobs were finished", n)
			}
			if p := r.push(t, payload); p.Duplicate {
				t.Errorf("after the finish the push is a duplicate: %+v", p)
			}
		})
	}
}
