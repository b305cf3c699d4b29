package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestFinishForms: every form in which a job is named by its id.
func TestFinishForms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, form := range map[string]func(d *delivery) string{
		"text":              func(d *delivery) string { return d.id() },
		"JSON string":       func(d *delivery) string { return `"` + d.id() + `"` },
		"string, escaped":   func(d *delivery) string { return `"\u0066` + d.id()[1:] + `"` + "\n" },
		"object":            func(d *delivery) string { return `{"id":"` + d.id() + `"}` },
		"object with space": func(d *delivery) string { return "{ \"id\" :\t\"" + d.id() + "\" } \n" },
		"job_id":            func(d *delivery) string { return `{"job_id":"` + d.id() + `"}` },
		"both":              func(d *delivery) string { return `{"id":"` + d.id() + `","job_id":"` + d.id() + `"}` },
		"delivered job":     func(d *delivery) string { return string(d.Data) },
		"with an attempt":   func(d *delivery) string { return `{"id":"` + d.id() + `","attempt":77}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "form." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w := r.work(t, id)
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"body":{"id":"inner"}}`, id, id))
			d := w.next(t).is(t, id, 1)
			for i, want := range []int{1, 0, 0} {
				if answer, want := r.ask(t, r.msg("finish", form(d))), fmt.Sprintf(`{"code":200,"message":"","data":{"finished":%d}}`, want); answer.raw != want {
					t.Errorf("finish %d: %s instead of %s", i, answer.raw, want)
				}
			}
			r.history.finished(id)
			if n := finished(t, d.say(t, "+ACK")); n != 0 {
				t.Errorf("the ack finished %d more", n)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestFinishStates: a finish counts in any state.
func TestFinishStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		fields string
		listen bool
		until  func(t *testing.T, w *worker, d *delivery)
	}{
		"delayed":   {`"delay":99`, false, nil},
		"held":      {`"delay":0`, false, nil},
		"in flight": {`"delay":0`, true, nil},
		"released":  {`"backoff":[99]`, true, settled("-NAK")},
		"TTR over":  {`"ttr":0.2,"backoff":[99]`, true, untilState("delayed")},
		"dead":      {`"ttr":0.2,"max_attempts":1`, true, untilState("dead")},
		"buried":    {`"delay":0`, true, settled("+TERM")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "state." + strings.ReplaceAll(name, " ", "_")
			payload := fmt.Sprintf(`{"id":%q,"topic":%q,%s}`, id, id, row.fields)
			var w *worker
			if row.listen {
				w = r.work(t, id)
			}
			r.push(t, payload)
			if row.listen {
				d := w.next(t).is(t, id, 1)
				if row.until != nil {
					row.until(t, w, d)
				}
			}
			if n := r.finish(t, id); n != 1 {
				t.Errorf("finished %d", n)
			}
			if n := r.finish(t, id); n != 0 {
				t.Errorf("finished %d more", n)
			}
			if !row.listen { // nothing is delivered any more; the id is free, and its next job comes
				w = r.work(t, id)
				r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"body":"next"}`, id, id))
				if d := w.next(t).is(t, id, 1); !strings.Contains(string(d.Data), `"next"`) {
					t.Errorf("the finished job is delivered: %s", d.Data)
				} else {
					d.finish(t)
				}
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

func TestFinishArray(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "array")
	for _, id := range []string{"a", "b", "c", "d"} {
		r.push(t, fmt.Sprintf(`{"id":%q,"topic":"array"}`, id))
	}
	jobs := map[string]string{}
	for _, d := range w.await(t, 4) {
		jobs[d.id()] = string(d.Data)
	}
	const one, none = `{"code":200,"message":"","data":{"finished":1}}`, `{"code":200,"message":"","data":{"finished":0}}`
	for _, row := range []struct {
		payload string
		code    int
		want    []string // empty: an envelope with code 400
	}{
		{`["a"]`, 200, []string{one}},
		{`[ "a", {"id":"b"}, "nothing" ,{"job_id":"b"},` + jobs["c"] + `]`, 200, []string{none, one, none, none, one}},
		{`["d", " d", {"id":"d","x":1}, 7, null, "d"]`, 207, []string{one, "", "", "", "", none}},
	} {
		answer := r.ask(t, r.msg("finish", row.payload))
		envelopes := decoded[[]json.RawMessage](t, answer)
		if answer.Code != row.code || len(envelopes) != len(row.want) {
			t.Fatalf("%s: %s", row.payload, answer.raw)
		}
		for i, want := range row.want {
			if got := string(envelopes[i]); got != want && (want != "" || !strings.HasPrefix(got, `{"code":400,`)) {
				t.Errorf("%s: %d: %s instead of %s", row.payload, i, got, want)
			}
		}
	}
	thousand := r.ask(t, r.msg("finish", `["x"`+strings.Repeat(`,"x"`, 999)+`]`))
	if envelopes := decoded[[]json.RawMessage](t, thousand); thousand.Code != 200 || len(envelopes) != 1000 {
		t.Errorf("a thousand: %.200s", thousand.raw)
	}
	refused(t, r.ask(t, r.msg("finish", `["x"`+strings.Repeat(`,"x"`, 1000)+`]`)), 413, "1000")
	r.emptied(t)
}

func TestFinishRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t","delay":99}`)
	for payload, texts := range map[string][]string{
		``: {"payload"}, ` a`: {"id"}, "a\n": {"id"}, "a ": {"id"}, strings.Repeat("a", 257): {"id", "257"}, "a\xff": {"id", "UTF-8"},
		`"a`: {"payload"}, `"a"x`: {"payload"}, `""`: {"id"}, `{}`: {"id"}, `{"id":7}`: {"id", "7"}, `{"id":"a"`: {"payload"},
		`{"id":"a","id":"a"}`: {"id", "twice"}, `{"id":"a","delay":5}`: {"delay"}, `{"id":"a","reason":"x"}`: {"reason"},
		`{"id":"a","job_id":"b"}`: {"job_id", "b"}, `{"ID":"a"}`: {"ID"}, `[]`: {"array"}, `["a"`: {"payload"}, `["a"]x`: {"payload"},
	} {
		refused(t, r.ask(t, r.msg("finish", payload)), 400, texts...)
	}
	if n := r.finish(t, "a"); n != 1 {
		t.Errorf("finished %d", n)
	}
	r.emptied(t)
}

// TestFinishByIDIsOfThePresentJob, whichever push it came from; and of a delivery that is answered only afterwards.
func TestFinishByIDIsOfThePresentJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "present")
	r.push(t, `{"id":"a","topic":"present"}`)
	old := w.next(t).is(t, "a", 1)
	old.finish(t)
	r.push(t, `{"id":"a","topic":"present","delay":99}`)
	if n := finished(t, r.ask(t, r.msg("finish", string(old.Data)))); n != 1 {
		t.Errorf("the finish by id of an earlier delivery finished %d", n)
	}
	r.emptied(t)
	// A finish without a reply counts as well.
	r.push(t, `{"id":"b","topic":"elsewhere","delay":99}`)
	r.send(t, r.msg("finish", "b"))
	testenv.Eventually(t, patience, func() bool { return len(r.leftovers(t)) == 0 }, "the job is gone")
}
