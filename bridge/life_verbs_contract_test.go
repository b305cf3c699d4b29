package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLifeVerbForms: touch, release and bury take an id in all its forms, and answer as on the ack subject.
func TestLifeVerbForms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	forms := map[string]string{ // ID is the id
		"text": "ID", "string": `"ID"`, "object": `{"id":"ID"}`, "job_id": `{"job_id":"ID"}`, "both": `{"id":"ID","job_id":"ID"}`,
		"white space": "{ \"id\" : \"ID\" }\n", "escapes": `{"id":"\u0049D"}`, "attempt": `{"id":"ID","attempt":1}`, "null attempt": `{"id":"ID","attempt":null}`,
		"whole job": "", "array": `["ID"]`, "array of objects": `[{"id":"ID"}]`,
	}
	for verb, row := range map[string]struct {
		state, reason string
		after         time.Duration
	}{
		"touch": {state: "inflight", after: 600 * time.Second}, "release": {state: "ready"}, "bury": {state: "dead", reason: "buried"},
	} {
		for name, form := range forms {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				id := verb + "-" + strings.ReplaceAll(name, " ", "-")
				d := r.bring(t, id, "inflight", `,"delay":0.1,"body":{"reason":5}`)
				d.w.leave(t)
				payload := strings.ReplaceAll(strings.ReplaceAll(form, `\u0049D`, "ID"), "ID", id)
				if name == "escapes" {
					payload = fmt.Sprintf(`{"id":"\u%04x%s"}`, id[0], id[1:])
				}
				if form == "" {
					payload = string(d.Data)
				}
				before := time.Now()
				answer := r.ask(t, r.msg(verb, payload))
				after := time.Now()
				if form != "" && form[0] == '[' {
					list := decoded[[]json.RawMessage](t, answer)
					if answer.Code != 200 || len(list) != 1 {
						t.Fatalf("replied %s", answer.raw)
					}
					answer = reply{raw: string(list[0])}
					answer.Data = decoded[struct{ Data json.RawMessage }](t, reply{raw: answer.raw, Data: list[0]}).Data
				}
				s := decoded[stateReply](t, answer)
				field, at := "due_at", s.DueAt
				if verb == "touch" {
					field, at = "deadline_at", s.DeadlineAt
				}
				if verb == "bury" {
					said(t, answer, fmt.Sprintf(`{"id":%q,"state":"dead"}`, id))
				} else {
					said(t, answer, fmt.Sprintf(`{"id":%q,"state":%q,%q:%q}`, id, row.state, field, at.UTC().Format(wireTime)))
					near(t, field, &at, before, after, row.after)
				}
				job := r.is(t, id, row.state)
				if row.reason != "" && (job.DeadReason == nil || *job.DeadReason != row.reason) {
					t.Errorf("dead reason of %+v", job)
				}
				r.finish(t, id)
			})
		}
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeVerbOptions: release takes a delay, bury a reason, and without them the job's own settings count.
func TestLifeVerbOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		verb, payload, fields string
		state, reason         string
		after                 time.Duration
	}{
		"seconds":            {"release", `{"id":"ID","delay":90}`, "", "delayed", "", 90 * time.Second},
		"fraction":           {"release", `{"id":"ID","delay":90.25}`, "", "delayed", "", 90250 * time.Millisecond},
		"duration":           {"release", `{"delay":"1m30s","job_id":"ID"}`, "", "delayed", "", 90 * time.Second},
		"zero":               {"release", `{"id":"ID","delay":0}`, `,"backoff":[50]`, "ready", "", 0},
		"negative":           {"release", `{"id":"ID","delay":-5}`, `,"backoff":[50]`, "ready", "", 0},
		"null":               {"release", `{"id":"ID","delay":null}`, `,"backoff":[50]`, "delayed", "", 50 * time.Second},
		"backoff":            {"release", `ID`, `,"backoff":[50,70]`, "delayed", "", 50 * time.Second},
		"last attempt":       {"release", `{"id":"ID","delay":50}`, `,"max_attempts":1`, "dead", "max_attempts", 0},
		"whole job, delay":   {"release", `{"id":"ID","attempt":1,"delay":50,"any":[1]}`, "", "ready", "", 0},
		"whole job, backoff": {"release", `{"id":"ID","attempt":1,"delay":50,"ttr":5,"body":{}}`, `,"backoff":[40]`, "delayed", "", 40 * time.Second},
		"reason":             {"bury", `{"id":"ID","reason":"no é"}`, "", "dead", "buried: no é", 0},
		"empty reason":       {"bury", `{"id":"ID","reason":""}`, "", "dead", "buried", 0},
		"null reason":        {"bury", `{"id":"ID","reason":null}`, "", "dead", "buried", 0},
		"reason of lines":    {"bury", `{"id":"ID","reason":"a\r\nDq-Id: b"}`, "", "dead", "buried: a  Dq-Id: b", 0},
		"whole job, reason":  {"bury", `{"id":"ID","attempt":1,"reason":7}`, "", "dead", "buried", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "option-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
			dead := r.events(t, "dead."+id)
			r.bring(t, id, "inflight", row.fields).w.leave(t)
			before := time.Now()
			answer := r.ask(t, r.msg(row.verb, strings.ReplaceAll(row.payload, "ID", id)))
			after := time.Now()
			s := decoded[stateReply](t, answer)
			if answer.Code != 200 || s.ID != id || s.State != row.state {
				t.Fatalf("replied %s", answer.raw)
			}
			job := r.is(t, id, row.state)
			if row.state == "dead" {
				if job.DeadReason == nil || *job.DeadReason != row.reason || dead.next(t).Header.Get("Dq-Reason") != row.reason {
					t.Errorf("dead reason of %+v", job)
				}
				near(t, "dead_at", job.DeadAt, before, after, 0)
			} else {
				near(t, "due_at", &s.DueAt, before, after, row.after)
			}
			if row.state == "delayed" && !job.DueAt.Equal(s.DueAt) {
				t.Errorf("due at %v, the reply said %v", job.DueAt, s.DueAt)
			}
			r.finish(t, id)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeVerbStates: touch and release want a job in flight, bury any but a dead one; a refusal names the state and
// changes nothing.
func TestLifeVerbStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wants := map[string][]string{"touch": {"inflight"}, "release": {"inflight"}, "bury": {"delayed", "ready", "inflight"}}
	for verb, wanted := range wants {
		for _, state := range []string{"delayed", "ready", "inflight", "dead", "unknown"} {
			t.Run(verb+" "+state, func(t *testing.T) {
				t.Parallel()
				id := verb + "-" + state
				if state == "unknown" {
					refused(t, r.ask(t, r.msg(verb, id)), 404, id)
					return
				}
				r.bring(t, id, state, "")
				was := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw
				answer := r.ask(t, r.msg(verb, id))
				if slices.Contains(wanted, state) {
					if answer.Code != 200 {
						t.Errorf("replied %s", answer.raw)
					}
				} else {
					refused(t, answer, 409, id, state)
					if is := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw; is != was {
						t.Errorf("changed to %s from %s", is, was)
					}
				}
				r.finish(t, id)
				r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
			})
		}
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeVerbFences: an attempt that is not the present one changes nothing; a finish counts whoever sends it.
func TestLifeVerbFences(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, verb := range []string{"touch", "release", "bury"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			id := "fence-" + verb
			d := r.bring(t, id, "inflight", "")
			said409 := func(payload string) {
				t.Helper()
				was := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw
				refused(t, r.ask(t, r.msg(verb, payload)), 409, id)
				if is := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).raw; is != was {
					t.Errorf("%s changed it to %s from %s", payload, is, was)
				}
			}
			said409(fmt.Sprintf(`{"id":%q,"attempt":2}`, id)) // one that is still to come
			d.settle(t, "-NAK")
			second := d.w.next(t).is(t, id, 2)
			r.confirmed(t, id)
			said409(string(d.Data))
			said409(fmt.Sprintf(`{"id":%q,"attempt":1}`, id))
			said409(fmt.Sprintf(`{"id":%q,"attempt":3}`, id))
			d.w.leave(t)
			if answer := r.ask(t, r.msg(verb, string(second.Data))); answer.Code != 200 {
				t.Errorf("the present attempt: %s", answer.raw)
			}
			if n := finished(t, r.ask(t, r.msg("finish", string(d.Data)))); n != 1 {
				t.Errorf("a finish of the first attempt finished %d", n)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifeVerbArrays: each element has its own answer, in order.
func TestLifeVerbArrays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for verb, state := range map[string]string{"touch": "inflight", "release": "ready", "bury": "dead"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			topic := "array." + verb
			w := r.watch(t, topic)
			out := map[string]*delivery{}
			for i := range 5 {
				id := fmt.Sprintf("%s-%d", verb, i)
				r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":600}`, id, topic))
				out[id] = w.next(t).is(t, id, 1)
			}
			w.leave(t)
			list := fmt.Sprintf(`["%[1]s-0",{"id":"%[1]s-1"},%[2]s, "%[1]s-none", 5, {"id":"%[1]s-3","attempt":9}, {"id":"%[1]s-3","nope":1}, "", null, [], "%[1]s-4"]`,
				verb, out[verb+"-2"].Data)
			codes := []int{200, 200, 200, 404, 400, 409, 400, 400, 400, 400, 200}
			answer := r.ask(t, r.msg(verb, list))
			if answer.Code != 207 {
				t.Fatalf("replied %s", answer.raw)
			}
			envelopes := decoded[[]struct {
				Code    int
				Message string
				Data    *stateReply
			}](t, answer)
			if len(envelopes) != len(codes) {
				t.Fatalf("replied %s", answer.raw)
			}
			for i, e := range envelopes {
				if e.Code != codes[i] || (e.Message == "") != (e.Code == 200) || e.Code == 200 && e.Data.State != state {
					t.Errorf("element %d: %+v %+v instead of %d", i, e, e.Data, codes[i])
				}
			}
			if job := r.is(t, verb+"-3", "inflight"); job.Attempt != 1 {
				t.Errorf("fenced: %+v", job)
			}
			// All good is 200; the second of the same finds the job as the first left it.
			answer = r.ask(t, r.msg(verb, fmt.Sprintf(`["%s-3"]`, verb)))
			if answer.Code != 200 {
				t.Errorf("replied %s", answer.raw)
			}
			if verb == "bury" {
				answer = r.ask(t, r.msg(verb, fmt.Sprintf(`["%[1]s-3","%[1]s-3"]`, verb)))
				if answer.Code != 207 || strings.Count(answer.raw, `"code":409`) != 2 {
					t.Errorf("replied %s", answer.raw)
				}
			}
			refused(t, r.ask(t, r.msg(verb, `[]`)), 400)
			refused(t, r.ask(t, r.msg(verb, "["+strings.Repeat(`"a",`, 1000)+`"a"]`)), 413)
			// Without a reply subject each failure is announced with its place.
			rejected := r.events(t, "rejected")
			r.send(t, r.msg(verb, fmt.Sprintf(`["%s-none",5]`, verb)))
			found := map[string]string{}
			testenvEvents(t, rejected, func(d *delivery) bool {
				found[d.Header.Get("Dq-Index")+" "+string(d.Data)] = d.Header.Get("Dq-Error-Code")
				return found[fmt.Sprintf("0 %q", verb+"-none")] == "404" && found["1 5"] == "400"
			})
			for i := range 5 {
				r.finish(t, fmt.Sprintf("%s-%d", verb, i))
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// testenvEvents reads messages until one makes done true.
func testenvEvents(t *testing.T, w *worker, done func(d *delivery) bool) {
	t.Helper()
	for !done(w.next(t)) {
	}
}

// TestLifeVerbRefused: what is wrong is named and changes nothing.
func TestLifeVerbRefused(t *testing.T) { //nolint:tparallel // what follows the rows looks at their outcome
	t.Parallel()
	r := newRig(t)
	r.bring(t, "wrong", "inflight", "")
	was := r.admin(t, "get", `{"id":"wrong"}`).raw
	for _, row := range [][]string{ // verb, payload, what the message names
		{"touch", "", "payload"},
		{"touch", `{"id":"wrong","delay":5}`, "delay"},
		{"touch", `{"id":"wrong","reason":"x"}`, "reason"},
		{"touch", `{"id":"wrong","topic":"wrong"}`, "topic"},
		{"touch", `{}`, "id"},
		{"touch", `{"id":null}`, "id"},
		{"touch", `{"id":5}`, "id"},
		{"touch", `{"ID":"wrong"}`, "ID"},
		{"touch", `{"id":"wrong","id":"wrong"}`, "id"},
		{"touch", `{"id":"wrong","job_id":"other"}`, "job_id"},
		{"touch", `{"id":"wrong"`, ""},
		{"touch", `{"id":"wrong"} x`, ""},
		{"touch", `"wrong`, ""},
		{"touch", ` wrong`, "id"},
		{"touch", "wrong\n", "id"},
		{"touch", "wro\x00ng", "id"},
		{"touch", "\xff", "id"},
		{"touch", strings.Repeat("x", 257), "id"},
		{"touch", `{"id":"wrong","attempt":0}`, "attempt"},
		{"touch", `{"id":"wrong","attempt":-1}`, "attempt"},
		{"touch", `{"id":"wrong","attempt":1.5}`, "attempt"},
		{"touch", `{"id":"wrong","attempt":"1"}`, "attempt"},
		{"touch", `{"id":"wrong","attempt":1e99}`, "attempt"},
		{"release", `{"id":"wrong","reason":"x"}`, "reason"},
		{"release", `{"id":"wrong","delay":"soon"}`, "delay"},
		{"release", `{"id":"wrong","delay":true}`, "delay"},
		{"release", `{"id":"wrong","delay":1e12}`, "delay"},
		{"release", `{"id":"wrong","delay":1,"delay":1}`, "delay"},
		{"release", `{"id":"wrong","at":5}`, "at"},
		{"bury", `{"id":"wrong","delay":1}`, "delay"},
		{"bury", `{"id":"wrong","reason":5}`, "reason"},
		{"bury", `{"id":"wrong","reason":"a","reason":"b"}`, "reason"},
	} {
		t.Run(fmt.Sprintf("%s %.40q", row[0], row[1]), func(t *testing.T) {
			refused(t, r.ask(t, r.msg(row[0], row[1])), 400, row[2])
		})
	}
	if is := r.admin(t, "get", `{"id":"wrong"}`).raw; is != was {
		t.Errorf("changed to %s from %s", is, was)
	}
}

// TestLifeVerbsActOnDeliveries: what a verb by id says holds for the delivery and for the window of its topic.
func TestLifeVerbsActOnDeliveries(t *testing.T) {
	t.Parallel()
	t.Run("touch", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		w := r.work(t, "t")
		r.push(t, `{"id":"t","topic":"t","ttr":2}`)
		d := w.next(t).is(t, "t", 1)
		pause(t, time.Second)
		before := time.Now()
		r.ask(t, r.msg("touch", "t"))
		again := w.next(t).is(t, "t", 2)
		if again.at.Sub(before) < 2*time.Second || before.Sub(d.at) < time.Second {
			t.Errorf("delivered again %v after the touch", again.at.Sub(before))
		}
		again.finish(t)
		r.emptied(t)
	})
	t.Run("window", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.MaxInflight = 1 })
		w := r.work(t, "t")
		for i := range 4 {
			r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":600}`, i))
		}
		seen := map[string]bool{}
		for i, verb := range []string{"bury", "release", "finish", "bury", "bury"} {
			d := w.next(t)
			seen[d.id()] = true
			if n := w.count(); n != i+1 {
				t.Fatalf("%d deliveries beside a window of 1", n)
			}
			payload := d.id()
			if verb == "release" {
				payload = fmt.Sprintf(`{"id":%q,"delay":0.05}`, d.id())
			}
			r.ask(t, r.msg(verb, payload))
		}
		if len(seen) != 4 {
			t.Errorf("delivered %v", seen)
		}
		r.admin(t, "purge", `{"topic":"t","state":"dead"}`)
		r.emptied(t)
	})
	t.Run("bury before delivery", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		dead := r.events(t, "dead.>")
		r.push(t, `{"id":"a","topic":"t","body":[1]}`)
		r.push(t, `{"id":"b","topic":"t","delay":0.4}`)
		r.tried(t)
		for _, id := range []string{"a", "b"} {
			said(t, r.ask(t, r.msg("bury", fmt.Sprintf(`{"id":%q,"reason":"early"}`, id))), fmt.Sprintf(`{"id":%q,"state":"dead"}`, id))
			if event := dead.next(t); event.id() != id || event.Header.Get("Dq-Reason") != "buried: early" || event.attempt() > 1 {
				t.Errorf("event %v", event.Header)
			}
		}
		r.work(t, "t").quiet(t, 800*time.Millisecond)
	})
}
