package bridge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestRejectedEvents sends what must be refused without a reply subject, one after the other.
func TestRejectedEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	events := r.events(t, "rejected")
	w := r.work(t, "t")
	r.push(t, `{"id":"held","topic":"t"}`)
	held := w.next(t).is(t, "held", 1)
	held.settle(t, "-NAK")
	w.next(t).is(t, "held", 2)

	const limit = 1 << 20
	huge := strings.Repeat("x", limit)
	thousandOne := `[{"topic":"t"}` + strings.Repeat(`,{"topic":"t"}`, 1000) + `]`
	largeBody := `{"topic":"t","body":"` + strings.Repeat("x", 1_000_000) + `"}`
	type event struct {
		payload, code, index string
		text                 string // of Dq-Error
	}
	for _, row := range []struct {
		name string
		msg  *nats.Msg
		want []event
	}{
		{"no JSON", r.msg("push", `hello`), []event{{`hello`, "400", "", "payload"}}},
		{"field", r.msg("push", ` {"topic":"a b"} `), []event{{` {"topic":"a b"} `, "400", "", "topic"}}},
		{"subject", r.msg("push.t", `{"topic":"u"}`), []event{{`{"topic":"u"}`, "400", "", "topic"}}},
		{"header form", r.msg("push", "\x00\xff", "Dq-Topic: a b"), []event{{"\x00\xff", "400", "", "Dq-Topic"}}},
		{"header", r.msg("push", `{"topic":"t"}`, "Dq-Nothing: x"), []event{{`{"topic":"t"}`, "400", "", "Dq-Nothing"}}},
		{"other topic", r.msg("push", `{"id":"held","topic":"u"}`), []event{{`{"id":"held","topic":"u"}`, "409", "", "held"}}},
		{"body", r.msg("push", largeBody), []event{{largeBody, "413", "", "body"}}},
		{"array too long", r.msg("push", thousandOne), []event{{thousandOne, "413", "", "array"}}},
		{"array", r.msg("push", `[{"id":"held","topic":"u"}, {"id":"held","topic":"t"} ,{"topic": "" },7]`), []event{
			{`{"id":"held","topic":"u"}`, "409", "0", "held"},
			{`{"topic": "" }`, "400", "2", "topic"},
			{`7`, "400", "3", "job"},
		}},
		{"huge", r.msg("push", huge), []event{{huge, "400", "", "payload"}}},
		{"finish", r.msg("finish", ` a`), []event{{` a`, "400", "", "id"}}},
		{"finish, empty", r.msg("finish", ``), []event{{``, "400", "", "payload"}}},
		{"finish, JSON", r.msg("finish", `{"id":"held","why":1}`), []event{{`{"id":"held","why":1}`, "400", "", "why"}}},
		{"finish, array", r.msg("finish", `["none", " a", {"id":"none", "why":1}, 7]`), []event{
			{`" a"`, "400", "1", "id"}, {`{"id":"none", "why":1}`, "400", "2", "why"}, {`7`, "400", "3", "id"},
		}},
		{"ack", &nats.Msg{Subject: held.Reply, Data: []byte("done")}, []event{{"done", "400", "", "done"}}},
		{"late ack", &nats.Msg{Subject: held.Reply, Data: []byte("+WPI")}, []event{{"+WPI", "409", "", "held"}}},
	} {
		r.send(t, row.msg)
		got := map[string]*delivery{} // by index: the failed jobs of an array come in no order
		for range row.want {
			d := events.next(t)
			got[d.Header.Get("Dq-Index")] = d
		}
		for _, want := range row.want {
			d := got[want.index]
			if d == nil {
				t.Fatalf("%s: no event with the index %q", row.name, want.index)
			}
			if d.Header.Get("Dq-Error-Code") != want.code || !strings.Contains(d.Header.Get("Dq-Error"), want.text) {
				t.Errorf("%s: headers %v lack %s and %s", row.name, d.Header, want.code, want.text)
			}
			cut := d.Header.Get("Dq-Truncated") == "true"
			if cut != (len(want.payload) > limit-2000) || !strings.HasPrefix(want.payload, string(d.Data)) ||
				!cut && string(d.Data) != want.payload || cut && len(d.Data) < limit-2000 {
				t.Errorf("%s: payload of %d bytes, %.100q, cut %v, instead of %d, %.100q", row.name, len(d.Data), d.Data, cut,
					len(want.payload), want.payload)
			}
		}
	}
	// What is in order, or has a reply subject, is no event: the next one is of the last push.
	refused(t, r.ask(t, r.msg("push", `{"topic":"asked"}x`)), 400)
	refused(t, r.ask(t, r.msg("finish", `{}`)), 400)
	refused(t, held.say(t, "done"), 400)
	r.send(t, r.msg("push", `{"id":"held","topic":"t"}`))
	r.send(t, r.msg("finish", `["none"]`))
	r.send(t, r.msg("push", `last`))
	if d := events.next(t); string(d.Data) != "last" {
		t.Errorf("one more event: %v %.200q", d.Header, d.Data)
	}
	for code, least := range map[string]float64{"400": 10, "409": 3, "413": 2} {
		if n := r.main.metric(t, `dqbridge_rejections_total{code="`+code+`"}`); n < least {
			t.Errorf("%v rejections with code %s are counted", n, code)
		}
	}
	if lines := r.main.log.lines("message is rejected"); len(lines) < 1 || len(lines) > int(1+patience/time.Second) {
		t.Errorf("%d rejections are logged", len(lines))
	}
}

// TestEventsOfADelivery: each delivery and each finish is announced while they are few, however fast the worker.
func TestEventsOfADelivery(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(d *delivery){
		"finished at once": func(d *delivery) { _ = d.Ack() },
		"finished by id":   func(d *delivery) { _ = d.w.rig.nc.Publish(d.w.rig.subject("finish"), []byte(d.id())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			delivered, finished := r.events(t, "delivered.mail.eu"), r.events(t, "finished.mail.eu")
			r.handle(t, "mail.eu", answer)
			// All are due at once and large, so that the first are answered while the last are still sent.
			const jobs, pushes = 80, 4
			at := time.Now().Add(time.Second).UTC().Format(wireTime)
			body := strings.Repeat("x", 20_000)
			for p := range pushes {
				list := make([]string, jobs/pushes)
				for i := range list {
					list[i] = fmt.Sprintf(`{"id":"job-%d-%d","topic":"mail.eu","at":%q,"body":%q}`, p, i, at, body)
				}
				if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != http.StatusOK {
					t.Fatal(answer.raw)
				}
			}
			for what, w := range map[string]*worker{"finished": finished, "delivered": delivered} {
				ids := map[string]bool{}
				for _, d := range w.await(t, jobs) {
					var event struct{ ID, Topic string }
					if err := json.Unmarshal(d.Data, &event); err != nil || event.Topic != "mail.eu" {
						t.Fatalf("%s: %s (%v)", what, d.Data, err)
					}
					ids[event.ID] = true
				}
				if len(ids) != jobs || w.count() != jobs {
					t.Errorf("%s: %d events of %d jobs", what, w.count(), len(ids))
				}
			}
			if n := r.main.metric(t, "dqbridge_deliveries_total"); n != jobs {
				t.Errorf("%v deliveries are counted", n)
			}
			r.emptied(t)
		})
	}
}

// TestEventsAreSampled: at most 100 a second of each kind for a topic.
func TestEventsAreSampled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.history.allowRepeats() // a batch that takes longer than half its lease, on a busy machine, is given back
	delivered, finished := r.events(t, "delivered.>"), r.events(t, "finished.>")
	w := r.handle(t, "busy", func(d *delivery) { _ = d.Ack() })
	const jobs = 2000
	began := time.Now()
	for range jobs / 1000 {
		r.ask(t, r.msg("push", `[{"topic":"busy"}`+strings.Repeat(`,{"topic":"busy"}`, 999)+`]`))
	}
	w.await(t, jobs)
	r.emptied(t)
	for what, events := range map[string]*worker{"delivered": delivered, "finished": finished} {
		list := events.await(t, 1)
		seconds := int(list[len(list)-1].at.Sub(began)/time.Second) + 2 // so many the events can have touched
		if len(list) > 100*seconds || len(list) >= jobs {
			t.Errorf("%d %s events in %d seconds", len(list), what, seconds)
		}
	}
}

// TestDeadEvents: dead jobs are announced as their workers knew them.
func TestDeadEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const raw = "\x00body\xff"
	for name, row := range map[string]struct {
		fields  string // of the push; empty: in header form
		answers []string
		reason  string
		attempt int
	}{
		"TTR of the last delivery": {`"max_attempts":1,"ttr":0.2`, nil, "max_attempts", 1},
		"TTR of the second":        {`"max_attempts":2,"ttr":0.2`, nil, "max_attempts", 2},
		"release of the last":      {`"max_attempts":2`, []string{"-NAK", "-NAK"}, "max_attempts", 2},
		"delayed release":          {`"max_attempts":1`, []string{`-NAK {"delay": 99000000000}`}, "max_attempts", 1},
		"buried":                   {`"max_attempts":3`, []string{"+TERM"}, "buried", 1},
		"buried with a reason":     {`"ttr":99`, []string{"-NAK", "+TERM no such customer: é"}, "buried: no such customer: é", 2},
		"raw":                      {"", []string{"+TERM"}, "buried", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "dead." + strings.ReplaceAll(name, " ", "_")
			events, w := r.events(t, "dead."+topic), r.work(t, topic)
			if row.fields != "" {
				r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"body":{"a": 1e2},%s}`, topic, topic, row.fields))
			} else {
				r.push(t, raw, "Dq-Topic: "+topic, "Dq-Id: "+topic)
			}
			var last *delivery
			for i := range row.attempt {
				last = w.next(t).is(t, topic, i+1)
				if i < len(row.answers) {
					last.say(t, row.answers[i])
				}
			}
			event := events.next(t)
			if event.Header.Get("Dq-Reason") != row.reason || event.Header.Get("Dq-Attempt") != strconv.Itoa(row.attempt) {
				t.Errorf("headers %v instead of %s after %d", event.Header, row.reason, row.attempt)
			}
			if string(event.Data) != string(last.Data) {
				t.Errorf("payload %s instead of %s", event.Data, last.Data)
			}
			if p := r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q}`, topic, topic)); !p.Duplicate || p.State != "dead" {
				t.Errorf("a push of the dead job's id: %+v", p)
			}
			w.quiet(t, 300*time.Millisecond)
			if n := r.finish(t, topic); n != 1 {
				t.Errorf("a finish of the dead job finished %d", n)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}
