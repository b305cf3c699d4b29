package bridge_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLifeGet: a job with all that applies to it in its state, and nothing else.
func TestLifeGet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	always := []string{"id", "topic", "state", "attempt", "due_at", "first_due_at", "pushed_at", "delay", "ttr", "max_attempts", "body"}
	for state, more := range map[string][]string{"delayed": nil, "ready": nil, "inflight": {"deadline_at"}, "dead": {"dead_reason", "dead_at"}} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprint(state, full), func(t *testing.T) {
				t.Parallel()
				id := fmt.Sprintf("get.%s.%v", state, full)
				fields, names := "", append(slices.Clone(always), more...)
				if full {
					fields = `,"max_attempts":4,"backoff":[1,"2.5s"],"expires":"1h","headers":{"A":"1","B":["2","3"]},"body": {"b" : 1e2}`
					names = append(names, "backoff", "expires", "headers")
				}
				before := time.Now()
				r.bring(t, id, state, fields)
				after := time.Now()
				answer := r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id))
				raw := decoded[map[string]json.RawMessage](t, answer)
				slices.Sort(names)
				if have := slices.Sorted(maps.Keys(raw)); !slices.Equal(have, names) {
					t.Errorf("fields %v instead of %v", have, names)
				}
				job := decoded[look](t, answer)
				attempt, due := map[string]int{"inflight": 1}[state], map[string]time.Duration{"delayed": 600 * time.Second, "dead": 600 * time.Second}[state]
				if job.ID != id || job.Topic != id || job.State != state || job.Attempt != attempt {
					t.Errorf("the job is %+v", job)
				}
				near(t, "due_at", job.DueAt, before, after, due)
				near(t, "first_due_at", job.FirstDueAt, before, after, due)
				near(t, "pushed_at", &job.PushedAt, before, after, 0)
				if delay, _ := job.Delay.Float64(); delay != due.Seconds() {
					t.Errorf("delay %v", job.Delay)
				}
				if ttr := map[string]string{"ready": "600", "inflight": "600"}[state]; ttr != "" && job.TTR.String() != ttr || ttr == "" && job.TTR != "60" {
					t.Errorf("ttr %v", job.TTR)
				}
				if state == "inflight" {
					near(t, "deadline_at", job.DeadlineAt, before, after, 600*time.Second)
				}
				if state == "dead" {
					near(t, "dead_at", job.DeadAt, before, after, 0)
					if *job.DeadReason != "buried" {
						t.Errorf("dead reason %q", *job.DeadReason)
					}
				}
				if !full && (string(raw["body"]) != `""` || job.MaxAttempts != 0) {
					t.Errorf("body %s, max_attempts %d", raw["body"], job.MaxAttempts)
				}
				if full && (strings.ReplaceAll(string(raw["body"]), " ", "") != `{"b":1e2}` || string(raw["backoff"]) != "[1,2.5]" || string(raw["expires"]) != "3600" ||
					string(raw["headers"]) != `{"A":["1"],"B":["2","3"]}` || string(raw["max_attempts"]) != "4") {
					t.Errorf("replied %s", answer.raw)
				}
				r.finish(t, id)
				r.gone(t, id)
			})
		}
	}
	t.Run("backoff", func(t *testing.T) {
		t.Parallel()
		d := r.bring(t, "backoff", "inflight", `,"backoff":[90]`)
		before := time.Now()
		d.settle(t, "-NAK")
		job := r.look(t, "backoff")
		if job.State != "delayed" || job.Attempt != 1 || !job.FirstDueAt.Equal(d.due()) || job.DeadlineAt != nil {
			t.Errorf("the job is %+v", job)
		}
		near(t, "due_at", job.DueAt, before, time.Now(), 90*time.Second)
	})
	t.Run("null", func(t *testing.T) {
		t.Parallel()
		r.push(t, `{"id":"null","topic":"t","delay":600,"body":null}`)
		if raw := must[map[string]json.RawMessage](t, r, "get", `{"id":"null"}`); string(raw["body"]) != "null" {
			t.Errorf("body %s", raw["body"])
		}
	})
	t.Run("raw", func(t *testing.T) {
		t.Parallel()
		const body = "\x00\xff{"
		r.push(t, body, "Dq-Id: raw", "Dq-Topic: t", "Dq-Delay: 600")
		job := r.look(t, "raw")
		if job.Body != nil || job.BodyBytes != nil || job.BodyBase64 == nil || *job.BodyBase64 != base64.StdEncoding.EncodeToString([]byte(body)) {
			t.Errorf("the job is %+v", job)
		}
	})
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		large := strings.Repeat("x", 999_000)
		r.push(t, fmt.Sprintf(`{"id":"large","topic":"t","delay":600,"body":%q}`, large))
		r.push(t, strings.Repeat("\xff", 999_000), "Dq-Id: largeraw", "Dq-Topic: t", "Dq-Delay: 600")
		for id, size := range map[string]int{"large": 999_002, "largeraw": 999_000} {
			if job := r.look(t, id); job.Body != nil || job.BodyBase64 != nil || job.BodyBytes == nil || *job.BodyBytes != size {
				t.Errorf("the body of %s is told as %d bytes, %d of base64, %v bytes", id, len(job.Body), len(ptrText(job.BodyBase64)), job.BodyBytes)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		r.gone(t, "none")
		for payload, names := range map[string]string{
			``: "id", `{}`: "id", `{"id":""}`: "id", `{"id":5}`: "id", `{"id":" a"}`: "id", `{"Id":"a"}`: "Id", `{"id":"a","topic":"t"}`: "topic",
			`{"id":"a","id":"a"}`: "", `"a"`: "", `["a"]`: "", `a`: "", `{"id":"a"} {}`: "", "\xff": "", `{"id":null}`: "id",
		} {
			refused(t, r.admin(t, "get", payload), 400, names)
		}
	})
}

func ptrText(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// pages reads a whole listing by pages and checks their sizes.
func (r *rig) pages(t *testing.T, topic, state string, limit int) []look {
	t.Helper()
	var all []look
	for cursor, n := "", 0; ; n++ {
		payload := fmt.Sprintf(`{"topic":%q,"state":%q,"limit":%d,"cursor":%q}`, topic, state, limit, cursor)
		page := must[listPage](t, r, "list", payload)
		if len(page.Jobs) > limit || n > 2000 {
			t.Fatalf("page %d has %d jobs, limit %d", n, len(page.Jobs), limit)
		}
		all = append(all, page.Jobs...)
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

// TestLifeList: each job of a state is listed, in the order of the state, whatever the size of the pages.
func TestLifeList(t *testing.T) { //nolint:tparallel // the rows share their jobs
	t.Parallel()
	r := newRig(t)
	const jobs = 60
	for _, state := range []string{"delayed", "ready", "inflight", "dead"} {
		topic := "list." + state
		if state == "ready" {
			r.admin(t, "pause", `{"topic":"list.ready"}`)
		}
		var w *worker
		if state == "inflight" {
			w = r.watch(t, topic)
		}
		for i := range jobs {
			id := fmt.Sprintf("%s-%02d", state, i)
			delay := 0
			if state == "delayed" || state == "dead" {
				delay = 900 - i
			}
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%d,"ttr":%d,"body":"x","headers":{"H":"1"}}`, id, topic, delay, 900-i))
			if state == "dead" {
				r.ask(t, r.msg("bury", id))
			}
		}
		if state == "inflight" {
			w.await(t, jobs)
			for _, d := range w.all() { // a job that is confirmed moves in the listing
				r.confirmed(t, d.id())
			}
		}
		t.Run(state, func(t *testing.T) {
			for _, limit := range []int{1, 7, 59, 60, 1000} {
				got := r.pages(t, topic, state, limit)
				ids := map[string]bool{}
				for i, job := range got {
					if job.State != state || job.Topic != topic || job.Body != nil || job.BodyBase64 != nil || job.BodyBytes != nil || job.Headers["H"] == nil {
						t.Fatalf("listed %+v", job)
					}
					ids[job.ID] = true
					if i == 0 {
						continue
					}
					by := map[string]func(look) *time.Time{
						"delayed": func(j look) *time.Time { return j.DueAt }, "inflight": func(j look) *time.Time { return j.DeadlineAt },
						"dead": func(j look) *time.Time { return j.DeadAt },
					}[state]
					if by != nil && by(job).Before(*by(got[i-1])) {
						t.Errorf("limit %d: %s at %v comes after %s at %v", limit, job.ID, by(job), got[i-1].ID, by(got[i-1]))
					}
				}
				if len(got) != jobs || len(ids) != jobs {
					t.Errorf("limit %d: %d jobs, %d of them different", limit, len(got), len(ids))
				}
			}
			if page := must[listPage](t, r, "list", fmt.Sprintf(`{"topic":"none","state":%q}`, state)); page.Jobs == nil || len(page.Jobs) > 0 {
				t.Errorf("a topic without jobs: %+v", page)
			}
			if state == "ready" {
				refused(t, r.admin(t, "list", `{"state":"ready"}`), 400, "topic")
				return
			}
			if got := r.pages(t, "", state, 1000); len(got) != jobs { // of all topics
				t.Errorf("%d jobs of all topics", len(got))
			}
		})
	}
}

// TestLifeListRefused: a wrong request is told what is allowed.
func TestLifeListRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 12 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":600}`, i))
	}
	page := must[listPage](t, r, "list", `{"topic":"t","state":"delayed","limit":5}`)
	if page.Cursor == "" {
		t.Fatalf("no cursor in %+v", page)
	}
	for _, row := range [][]string{ // payload, what the message has
		{`{"topic":"t","state":"dead","cursor":"` + page.Cursor + `"}`, "cursor", "same topic and state"},
		{`{"topic":"u","state":"delayed","cursor":"` + page.Cursor + `"}`, "cursor", "same topic and state"},
		{`{"state":"delayed","cursor":"` + page.Cursor + `"}`, "cursor"},
		{`{"topic":"t","state":"delayed","cursor":"x"}`, "cursor"},
		{`{"topic":"t","state":"delayed","cursor":"` + page.Cursor[:len(page.Cursor)-4] + `"}`, "cursor"},
		{`{"topic":"t","state":"delayed","cursor":5}`, "cursor"},
		{`{"topic":"t","state":"delayed","limit":0}`, "limit is 0", "1 to 1000"},
		{`{"topic":"t","state":"delayed","limit":-1}`, "limit is -1", "1 to 1000"},
		{`{"topic":"t","state":"delayed","limit":1001}`, "limit is 1001", "1 to 1000"},
		{`{"topic":"t","state":"delayed","limit":1.5}`, "limit is 1.5"},
		{`{"topic":"t","state":"delayed","limit":"5"}`, "limit"},
		{`{"topic":"t","state":"delayed","limit":1e30}`, "limit"},
		{`{"topic":"t","state":"Dead"}`, "state is Dead", "delayed, ready, inflight or dead"},
		{`{"topic":"t","state":"waiting"}`, "state is waiting", "delayed, ready, inflight or dead"},
		{`{"topic":"t","state":""}`, "state"},
		{`{"topic":"t"}`, "state", "delayed, ready, inflight or dead"},
		{`{"topic":"t","state":5}`, "state"},
		{`{"topic":"t.*","state":"dead"}`, "topic"},
		{`{"topic":"t","state":"dead","sort":"id"}`, "sort", "topic, state, limit, cursor"},
		{`[]`, ""},
		{``, "state"},
	} {
		refused(t, r.admin(t, "list", row[0]), 400, row[1:]...)
	}
}

// TestLifeListWhileJobsMove: a job that keeps its state is listed although others come and go between the pages.
func TestLifeListWhileJobsMove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []string{"delayed", "ready", "dead"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			topic := "move." + state
			if state == "ready" {
				r.admin(t, "pause", fmt.Sprintf(`{"topic":%q}`, topic))
			}
			number := 0
			add := func(n int) {
				for range n {
					id := fmt.Sprintf("%s-%d", state, number)
					number++
					delay := 600 + (number*37)%50
					if state == "ready" {
						delay = 0
					}
					r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%d}`, id, topic, delay))
					if state == "dead" {
						r.ask(t, r.msg("bury", id))
					}
				}
			}
			const jobs = 80
			add(jobs)
			seen, left := map[string]int{}, map[string]bool{}
			for cursor, n := "", 0; ; n++ {
				page := must[listPage](t, r, "list", fmt.Sprintf(`{"topic":%q,"state":%q,"limit":5,"cursor":%q}`, topic, state, cursor))
				for _, job := range page.Jobs {
					seen[job.ID]++
				}
				if cursor = page.Cursor; cursor == "" || n > 500 {
					break
				}
				gone := fmt.Sprintf("%s-%d", state, (n*13)%jobs)
				r.finish(t, gone)
				left[gone] = true
				if n < 20 {
					add(1)
				}
			}
			for i := range jobs {
				if id := fmt.Sprintf("%s-%d", state, i); seen[id] == 0 && !left[id] {
					t.Errorf("%s is not listed", id)
				}
			}
		})
	}
}

// TestLifeListFits: a page of jobs with many headers fits a message.
func TestLifeListFits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 150
	value := strings.Repeat("v", 16_000)
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","delay":600,"headers":{"H":%q}}`, i, value))
	}
	if got := r.pages(t, "t", "delayed", 1000); len(got) != jobs {
		t.Errorf("%d jobs listed", len(got))
	}
}

// TestLifeCancel: the answer says in which state the job was found, and then it is gone.
func TestLifeCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []string{"delayed", "ready", "inflight", "dead"} {
		id := "cancel." + state
		d := r.bring(t, id, state, "")
		payload := fmt.Sprintf(`{"id":%q}`, id)
		said(t, r.admin(t, "cancel", payload), fmt.Sprintf(`{"id":%q,"state":%q}`, id, state))
		r.gone(t, id)
		said(t, r.admin(t, "cancel", payload), fmt.Sprintf(`{"id":%q,"state":"unknown"}`, id))
		if d != nil {
			refused(t, d.say(t, "-NAK"), 404)
			if n := finished(t, d.say(t, "+ACK")); n != 0 {
				t.Errorf("an ack of a cancelled job finished %d", n)
			}
		}
		r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
		if line := r.topic(t, id); line != (topicLine{}) {
			t.Errorf("topic %+v", line)
		}
	}
	for payload, names := range map[string]string{``: "id", `{"id":"\n"}`: "id", `{"id":"a","why":"x"}`: "why", `["a"]`: ""} {
		refused(t, r.admin(t, "cancel", payload), 400, names)
	}
	r.emptied(t)
}

// TestLifeRun: a waiting job is due now, any other is not touched.
func TestLifeRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []string{"delayed", "ready"} {
		id := "run." + state
		r.bring(t, id, state, `,"max_attempts":3`)
		r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
		before := time.Now()
		answer := r.admin(t, "run", fmt.Sprintf(`{"id":%q}`, id))
		s := decoded[stateReply](t, answer)
		said(t, answer, fmt.Sprintf(`{"id":%q,"state":"ready","due_at":%q}`, id, s.DueAt.UTC().Format(wireTime)))
		near(t, "due_at", &s.DueAt, before, time.Now(), 0)
		w := r.work(t, id)
		d := w.next(t).is(t, id, 1)
		d.settle(t, `-NAK {"delay": 600000000000}`)
		must[stateReply](t, r, "run", fmt.Sprintf(`{"id":%q}`, id)) // its attempts stay
		d = w.next(t).is(t, id, 2)
		d.finish(t)
	}
	for _, state := range []string{"inflight", "dead"} {
		id := "run." + state
		r.bring(t, id, state, "")
		for verb, more := range map[string]string{"run": "", "reschedule": `,"delay":5`} {
			refused(t, r.admin(t, verb, fmt.Sprintf(`{"id":%q%s}`, id, more)), 409, id, state)
			if job := r.look(t, id); job.State != state {
				t.Errorf("the job is %+v", job)
			}
			refused(t, r.admin(t, verb, `{"id":"none"`+more+`}`), 404, "none")
		}
		r.finish(t, id)
	}
	for payload, names := range map[string]string{``: "id", `{"id":"a","delay":1}`: "delay", `{"id":7}`: "id"} {
		refused(t, r.admin(t, "run", payload), 400, names)
	}
	r.emptied(t)
}

// TestLifeReschedule: a waiting job gets another due time, and is delivered then.
func TestLifeReschedule(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		from, when string
		after      time.Duration
		at         time.Time // not zero where it is an absolute time
		state      string
	}{
		"later":            {"delayed", `"delay":900.5`, 900500 * time.Millisecond, time.Time{}, "delayed"},
		"sooner":           {"delayed", `"delay":"400ms"`, 400 * time.Millisecond, time.Time{}, "delayed"},
		"now":              {"delayed", `"delay":0`, 0, time.Time{}, "ready"},
		"negative":         {"delayed", `"delay":-5`, 0, time.Time{}, "ready"},
		"from ready":       {"ready", `"delay":0.4`, 400 * time.Millisecond, time.Time{}, "delayed"},
		"at":               {"delayed", `"at":"RFC3339"`, 0, time.Unix(1, 0), "delayed"},
		"at, Unix":         {"ready", `"at":UNIX.5`, 0, time.Unix(1, 0), "delayed"},
		"at, in the past":  {"delayed", `"at":1`, 0, time.Time{}, "ready"},
		"delay, null at":   {"delayed", `"delay":0.3,"at":null`, 300 * time.Millisecond, time.Time{}, "delayed"},
		"ready, in a past": {"ready", `"at":"2001-01-01T00:00:00Z"`, 0, time.Time{}, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "move." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			r.bring(t, id, row.from, "")
			before := time.Now()
			soon := time.Unix(before.Unix()+4, 500_000_000)
			when := strings.NewReplacer("RFC3339", soon.Format(time.RFC3339Nano), "UNIX", strconv.FormatInt(soon.Unix(), 10)).Replace(row.when)
			answer := r.admin(t, "reschedule", fmt.Sprintf(`{"id":%q,%s}`, id, when))
			after := time.Now()
			s := decoded[stateReply](t, answer)
			said(t, answer, fmt.Sprintf(`{"id":%q,"state":%q,"due_at":%q}`, id, row.state, s.DueAt.UTC().Format(wireTime)))
			if row.at.IsZero() {
				near(t, "due_at", &s.DueAt, before, after, row.after)
			} else if off := s.DueAt.Sub(soon); off < 0 || off > time.Millisecond {
				t.Errorf("due %v instead of %v", s.DueAt, soon)
			}
			if row.after > time.Minute {
				if job := r.look(t, id); job.State != "delayed" || !job.DueAt.Equal(s.DueAt) {
					t.Errorf("the job is %+v", job)
				}
				r.finish(t, id)
				return
			}
			w := r.work(t, id)
			r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, id))
			d := w.next(t).is(t, id, 1)
			if d.at.Before(s.DueAt) || d.at.Sub(s.DueAt) > 3*time.Second {
				t.Errorf("delivered %v after it was due", d.at.Sub(s.DueAt))
			}
			d.finish(t)
			w.quiet(t, 50*time.Millisecond)
		})
	}
	r.push(t, `{"id":"stays","topic":"t","delay":600}`)
	was := r.admin(t, "get", `{"id":"stays"}`).raw
	for payload, names := range map[string]string{
		`{"id":"stays"}`: "delay", `{"id":"stays","delay":1,"at":1}`: "delay", `{"id":"stays","delay":null,"at":null}`: "delay",
		`{"id":"stays","delay":"soon"}`: "delay", `{"id":"stays","at":"soon"}`: "at", `{"id":"stays","at":true}`: "at", `{"id":"stays","delay":1e12}`: "delay",
		`{"id":"stays","at":1e12}`: "at", `{"id":"stays","at":"2999-01-01T00:00:00Z"}`: "at", `{"delay":1}`: "id", `{"id":"stays","delay":1,"ttr":1}`: "ttr", ``: "id",
		`{"id":"stays","delay":[1]}`: "delay",
	} {
		refused(t, r.admin(t, "reschedule", payload), 400, names)
	}
	if is := r.admin(t, "get", `{"id":"stays"}`).raw; is != was {
		t.Errorf("changed to %s from %s", is, was)
	}
	r.finish(t, "stays")
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifePurge: all jobs of a topic in a state are gone, and no others.
func TestLifePurge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []string{"delayed", "ready", "inflight", "dead"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			topic := "purge." + state
			const jobs = 230
			list, ids := make([]string, jobs), make([]string, jobs)
			delay := map[string]int{"delayed": 600, "dead": 600}[state]
			var w *worker
			if state == "inflight" {
				w = r.watch(t, topic)
			}
			if state == "ready" {
				r.admin(t, "pause", fmt.Sprintf(`{"topic":%q}`, topic))
			}
			for i := range list {
				ids[i] = fmt.Sprintf(`"%s-%d"`, state, i)
				list[i] = fmt.Sprintf(`{"id":%s,"topic":%q,"delay":%d,"ttr":600}`, ids[i], topic, delay)
			}
			r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]"))
			switch state {
			case "inflight":
				w.await(t, jobs)
				w.leave(t)
				for _, d := range w.all() { // a job that is confirmed moves in the listing
					r.confirmed(t, d.id())
				}
			case "dead":
				r.ask(t, r.msg("bury", "["+strings.Join(ids, ",")+"]"))
			}
			// Others: the same topic in another state, and the same state of another topic.
			keep := map[string]string{"delayed": "dead", "ready": "delayed", "inflight": "dead", "dead": "delayed"}[state]
			r.push(t, fmt.Sprintf(`{"id":"keep-%s","topic":%q,"delay":600}`, state, topic))
			if keep == "dead" {
				r.ask(t, r.msg("bury", "keep-"+state))
			}
			r.bring(t, topic+".sub", state, "")
			said(t, r.admin(t, "purge", fmt.Sprintf(`{"topic":%q,"state":%q}`, topic, state)), fmt.Sprintf(`{"purged":%d}`, jobs))
			said(t, r.admin(t, "purge", fmt.Sprintf(`{"topic":%q,"state":%q}`, topic, state)), `{"purged":0}`)
			if job := r.look(t, "keep-"+state); job.State != keep {
				t.Errorf("the job in another state is %+v", job)
			}
			if job := r.look(t, topic+".sub"); job.State != state {
				t.Errorf("the job of another topic is %+v", job)
			}
			r.gone(t, state+"-7")
			if w != nil {
				refused(t, w.next(t).say(t, "-NAK"), 404)
			}
			r.finish(t, "keep-"+state)
			r.finish(t, topic+".sub")
			r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, topic))
			r.admin(t, "resume", fmt.Sprintf(`{"topic":%q}`, topic+".sub"))
		})
	}
	for payload, names := range map[string]string{
		``: "topic", `{"topic":"t"}`: "state", `{"state":"dead"}`: "topic", `{"topic":"t","state":"all"}`: "state", `{"topic":"*","state":"dead"}`: "topic",
		`{"topic":"t","state":"dead","limit":1}`: "limit",
	} {
		refused(t, r.admin(t, "purge", payload), 400, names)
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifePurgeOpensWindow: a purge of what is in flight lets the next jobs out.
func TestLifePurgeOpensWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 2 })
	w := r.watch(t, "t")
	for i := range 4 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":600}`, i))
	}
	w.await(t, 2)
	testenv.Eventually(t, patience, func() bool { return r.topic(t, "t").Inflight == 2 }, "two are in flight")
	said(t, r.admin(t, "purge", `{"topic":"t","state":"inflight"}`), `{"purged":2}`)
	for _, d := range w.await(t, 4) {
		r.finish(t, d.id())
	}
	r.emptied(t)
}

// TestLifeAdminRefused: verbs and fields that there are none of are named, with what there is.
func TestLifeAdminRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	verbs := []string{"get", "list", "cancel", "run", "reschedule", "kick", "purge", "pause", "resume", "topics", "stats"}
	for _, verb := range []string{"delete", "Get", "gets", "push"} {
		refused(t, r.admin(t, verb, `{"id":"a"}`), 400, append([]string{verb}, verbs...)...)
	}
	for _, verb := range verbs {
		refused(t, r.admin(t, verb, `{"nope":1}`), 400, "nope")
		for _, payload := range []string{`[]`, `5`, `"a"`, `{`, `{"nope"`, `null null`, "\xff\xfe", `{"id":"a"}{}`} {
			refused(t, r.admin(t, verb, payload), 400)
		}
	}
}

// TestLifeServiceInfo: $SRV.INFO lists an endpoint for each request of the contract.
func TestLifeServiceInfo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answer, err := r.nc.Request("$SRV.INFO.dqbridge", nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err = json.Unmarshal(answer.Data, &info); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]bool{}
	for _, e := range info.Endpoints {
		if subjects[e.Subject] || e.Name == "" || e.QueueGroup == "" {
			t.Errorf("endpoint %+v", e)
		}
		subjects[e.Subject] = true
	}
	for _, tail := range []string{
		"push", "push.>", "pop.>", "finish", "touch", "release", "bury", "admin.get", "admin.list", "admin.cancel", "admin.run", "admin.reschedule", "admin.kick",
		"admin.purge", "admin.pause", "admin.resume", "admin.topics", "admin.stats",
	} {
		if !subjects[r.subject(tail)] {
			t.Errorf("no endpoint for %s in %v", tail, subjects)
		}
	}
	// Errors count in the service's own statistics, as the nats tool shows them.
	r.admin(t, "run", `{"id":"none"}`)
	r.admin(t, "run", `{}`)
	if answer, err = r.nc.Request("$SRV.STATS.dqbridge", nil, patience); err != nil {
		t.Fatal(err)
	}
	var stats micro.Stats
	if err := json.Unmarshal(answer.Data, &stats); err != nil {
		t.Fatal(err)
	}
	for _, e := range stats.Endpoints {
		if e.Subject == r.subject("admin.run") && e.NumRequests != 2 {
			t.Errorf("statistics %+v", e)
		}
	}
}

// TestLifeOddNames: ids and topics of every odd but allowed character work in every verb.
func TestLifeOddNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	quote := func(s string) string {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for i, row := range [][2]string{
		{`a "b" {c}:d*>`, `ü.a:b{c}`},
		{`{"id":"x"}`, `-`},
		{`[1]`, `"q"`},
		{`日本 語`, `日.本`},
		{`+TERM`, `p:x`},
		{strings.Repeat("é", 128), strings.Repeat("t", 200)},
		{"550e8400-e29b-41d4-a716-446655440000", "uuid"},
		{`\u0041<>&`, `<&>x`[:2] + "x"},
		{"0", "0"},
		{"null", "null"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			id, topic := row[0], row[1]
			one := fmt.Sprintf(`{"id":%s}`, quote(id))
			of := func(more string) string { return fmt.Sprintf(`{"topic":%s%s}`, quote(topic), more) }
			r.push(t, fmt.Sprintf(`{"id":%s,"topic":%s,"delay":600}`, quote(id), quote(topic)))
			if job := must[look](t, r, "get", one); job.ID != id || job.Topic != topic {
				t.Errorf("got %+v", job)
			}
			if page := must[listPage](t, r, "list", of(`,"state":"delayed"`)); len(page.Jobs) != 1 || page.Jobs[0].ID != id {
				t.Errorf("listed %+v", page)
			}
			must[stateReply](t, r, "reschedule", fmt.Sprintf(`{"id":%s,"delay":500}`, quote(id)))
			must[stateReply](t, r, "pause", of(""))
			must[stateReply](t, r, "run", one)
			if page := must[listPage](t, r, "list", of(`,"state":"ready"`)); len(page.Jobs) != 1 || page.Jobs[0].ID != id {
				t.Errorf("listed %+v", page)
			}
			if line := r.topicOf(t, topic); line.Ready != 1 || !line.Paused {
				t.Errorf("topic %+v", line)
			}
			must[stateReply](t, r, "resume", of(""))
			d := r.popped(t, topic, `{"wait":5}`)
			if d.id() != id {
				t.Errorf("popped %v", d.Header)
			}
			for _, verb := range []string{"touch", "release", "bury"} {
				if s := decoded[stateReply](t, r.ask(t, r.msg(verb, one))); s.ID != id {
					t.Errorf("%s: %+v", verb, s)
				}
				if verb == "release" {
					r.popped(t, topic, `{"wait":5}`)
				}
			}
			said(t, r.admin(t, "kick", of("")), `{"kicked":1}`)
			testenv.Eventually(t, patience, func() bool {
				return must[struct{ Purged int }](t, r, "purge", of(`,"state":"ready"`)).Purged == 1
			}, "the job is purged")
			if s := must[stateReply](t, r, "cancel", one); s.State != "unknown" || s.ID != id {
				t.Errorf("cancelled %+v", s)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// topicOf reads the figures of a topic whose name may be no pattern.
func (r *rig) topicOf(t *testing.T, name string) topicLine {
	t.Helper()
	for cursor := ""; ; {
		page := must[topicPage](t, r, "topics", fmt.Sprintf(`{"limit":1000,"cursor":%q}`, cursor))
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
