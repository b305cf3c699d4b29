package bridge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestClientVerbs answers with nats.go's own methods, on a plain subscription and in a queue group.
func TestClientVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead := r.events(t, "dead.>")
	wait := nats.AckWait(patience)
	const gone, isDead = -1, -2
	for name, row := range map[string]struct {
		answer func(d *delivery) error
		next   time.Duration // until the second delivery, or gone or isDead: there is none
	}{
		"Ack":          {func(d *delivery) error { return d.Ack() }, gone},
		"AckSync":      {func(d *delivery) error { return d.AckSync(wait) }, gone},
		"Respond":      {func(d *delivery) error { return d.Respond(nil) }, gone},
		"Nak":          {func(d *delivery) error { return d.Nak() }, 0},
		"NakWithDelay": {func(d *delivery) error { return d.NakWithDelay(700 * time.Millisecond) }, 700 * time.Millisecond},
		"InProgress":   {func(d *delivery) error { return d.InProgress(wait) }, 2 * time.Second},
		"Term":         {func(d *delivery) error { return d.Term() }, isDead},
		// nats.go has TermWithReason for messages of consumers only; this is what it sends.
		"TermWithReason": {func(d *delivery) error { return d.Respond([]byte("+TERM bad input")) }, isDead},
	} {
		for _, group := range []string{"", "workers"} {
			t.Run(name+group, func(t *testing.T) {
				t.Parallel()
				topic := "verb." + name + group
				w := r.member(t, r.nc, topic, group)
				r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":2}`, topic, topic))
				d := w.next(t).is(t, topic, 1)
				before := time.Now()
				if err := row.answer(d); err != nil {
					t.Fatal(err)
				}
				switch row.next {
				case gone:
					testenv.Eventually(t, patience, func() bool { return !r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":99}`, topic, topic)).Duplicate },
						"the job is gone")
				case isDead:
					testenv.Eventually(t, patience, func() bool { return r.state(t, topic) == "dead" }, "the job is dead")
				default:
					again := w.next(t).is(t, topic, 2)
					if again.at.Sub(before) < row.next {
						t.Errorf("delivered again after %v, before %v", again.at.Sub(before), row.next)
					}
				}
				if n := r.finish(t, topic); n != 1 {
					t.Errorf("a finish of what is left finished %d", n)
				}
			})
		}
	}
	t.Cleanup(func() {
		reasons := map[string]string{}
		for _, d := range dead.await(t, 4) {
			reasons[d.id()] = d.Header.Get("Dq-Reason")
		}
		if reasons["verb.Term"] != "buried" || reasons["verb.TermWithReasonworkers"] != "buried: bad input" {
			t.Errorf("reasons %v", reasons)
		}
		r.emptied(t)
	})
}

// state gives the state of a stored job, as a push of its id tells it.
func (r *rig) state(t *testing.T, id string) string {
	t.Helper()
	topic := id // the tests that ask have one job a topic
	p := r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":86400}`, id, topic))
	if !p.Duplicate {
		t.Fatalf("job %s is not stored", id)
	}
	return p.State
}

// TestAckReplies has the replies of all verbs on an ack subject.
func TestAckReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		verb  string
		state string        // that is told; empty: the finish's reply
		after time.Duration // from now to due_at or deadline_at
	}{
		"ACK":               {"+ACK", "", 0},
		"empty":             {"", "", 0},
		"NAK":               {"-NAK", "ready", 0},
		"NAK, delay":        {`-NAK {"delay": 90000000000}`, "delayed", 90 * time.Second},
		"NAK, delay 1e10":   {`-NAK {"delay":1e10}`, "delayed", 10 * time.Second},
		"NAK, delay 0":      {`-NAK {"delay":0}`, "ready", 0},
		"NAK, a nanosecond": {`-NAK {"delay":1}`, "delayed", time.Millisecond},
		"NAK, empty":        {`-NAK {}`, "ready", 0},
		"WPI":               {"+WPI", "inflight", 40 * time.Second},
		"TERM":              {"+TERM", "dead", 0},
		"TERM, reason":      {"+TERM because", "dead", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "reply." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w := r.work(t, topic)
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":40}`, topic, topic))
			d := w.next(t).is(t, topic, 1)
			before := time.Now()
			answer := d.say(t, row.verb)
			after := time.Now()
			want := `{"code":200,"message":"","data":{"finished":1}}`
			switch row.state {
			case "":
				r.history.finished(topic)
			case "dead":
				want = fmt.Sprintf(`{"code":200,"message":"","data":{"id":%q,"state":"dead"}}`, topic)
			default:
				at := decoded[stateReply](t, answer)
				field, told := "due_at", at.DueAt
				if row.state == "inflight" {
					field, told = "deadline_at", at.DeadlineAt
				}
				want = fmt.Sprintf(`{"code":200,"message":"","data":{"id":%q,"state":%q,%q:%q}}`, topic, row.state, field,
					told.UTC().Format(wireTime))
				if told.Before(before.Add(row.after).Truncate(time.Millisecond)) || told.After(after.Add(row.after+2*time.Millisecond)) {
					t.Errorf("%s is %v, %v after the verb, instead of %v", field, told, told.Sub(before), row.after)
				}
			}
			if answer.raw != want || len(answer.header) > 0 {
				t.Errorf("replied %s %v instead of %s", answer.raw, answer.header, want)
			}
			if n := r.finish(t, topic); n == 0 != (row.state == "") {
				t.Errorf("a finish of what is left finished %d", n)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestGarbageOnAckSubject: what is no verb is refused and changes nothing.
func TestGarbageOnAckSubject(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "garbage")
	r.push(t, `{"id":"garbage","topic":"garbage","ttr":40,"max_attempts":1}`)
	d := w.next(t).is(t, "garbage", 1)
	for _, payload := range []string{
		"done", "ACK", "+ack", "+ACK ", " +ACK", "+NXT", "-NAK5", `-NAK {"delay":"5s"}`, `-NAK {"delay":-1e999}x`, `-NAK {"wait":5}`,
		`-NAK {"delay":1,"delay":1}`, `-NAK {"delay":1e30}`, `-NAK [1]`, "-NAK soon", "+TERMINATE", "+WPI 5", "{}", `{"id":"garbage"}`, "\x00", "0",
		strings.Repeat("x", 100_000),
	} {
		refused(t, d.say(t, payload), 400)
	}
	// A subject that is no ack subject finishes nothing either, wherever the reply's owner is.
	for _, subject := range []string{
		d.Reply + ".x", d.Reply[:len(d.Reply)-1], strings.Replace(d.Reply, "garbage", "", 1), d.Reply + "A",
	} {
		answer, err := r.nc.Request(subject, []byte("+ACK"), 2*time.Second)
		if err == nil && strings.Contains(string(answer.Data), `"finished":1`) {
			t.Errorf("%s: %s", subject, answer.Data)
		}
	}
	if state := r.state(t, "garbage"); state != "inflight" {
		t.Errorf("the job is %s", state)
	}
	d.finish(t)
	r.emptied(t)
}

// TestVerbTwice: the very ack that did it may come again.
func TestVerbTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		fields, verb string
		code         int
	}{
		"ACK":              {``, "+ACK", 200},
		"NAK, delayed":     {``, `-NAK {"delay": 90000000000}`, 200},
		"NAK, backoff":     {`,"backoff":[90]`, `-NAK`, 200},
		"NAK, last":        {`,"max_attempts":1`, `-NAK`, 200}, // it made the job dead
		"NAK, last, delay": {`,"max_attempts":1`, `-NAK {"delay": 90000000000}`, 200},
		"WPI":              {``, "+WPI", 200},
		"TERM":             {``, "+TERM", 200},
		"TERM, reason":     {``, "+TERM why", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "twice." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w, dead := r.work(t, topic), r.events(t, "dead."+topic)
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":90%s}`, topic, topic, row.fields))
			d := w.next(t).is(t, topic, 1)
			first := d.say(t, row.verb)
			if first.Code != http.StatusOK {
				t.Fatalf("the first: %s", first.raw)
			}
			if row.verb == "+ACK" {
				r.history.finished(topic)
				if n := finished(t, d.say(t, row.verb)); n != 0 {
					t.Errorf("the second ack finished %d", n)
				}
				return
			}
			was := r.state(t, topic)
			second := d.say(t, row.verb)
			if second.Code != row.code || row.verb != "+WPI" && second.raw != first.raw {
				t.Errorf("the second: %s after %s", second.raw, first.raw)
			}
			if is := r.state(t, topic); is != was {
				t.Errorf("the second made the job %s after %s", is, was)
			}
			if n := dead.count(); n > 1 {
				t.Errorf("the job died %d times", n)
			}
			r.finish(t, topic)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLateVerbs: verbs of an earlier attempt, of an earlier push, or in a state that is not for them.
func TestLateVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct {
		fields string
		// between happens after the first delivery, again says that a second one must come of it.
		between func(t *testing.T, w *worker, d *delivery)
		again   bool
		codes   map[string]int // for each verb that is then sent on the first delivery's ack subject
		state   string         // in the end
	}{
		"older attempt": {
			between: settled("-NAK"), again: true,
			codes: map[string]int{"+WPI": 409, "+TERM": 409, "+TERM why": 409}, state: "inflight",
		},
		"older attempt finishes": {between: settled("-NAK"), again: true, codes: map[string]int{"+ACK": 200}, state: "gone"},
		"TTR over, older attempt": {
			fields: `,"ttr":0.3`, again: true, codes: map[string]int{"-NAK": 409, "+WPI": 409, "+TERM": 409}, state: "any",
		},
		"TTR over, backoff": {
			fields: `,"ttr":0.3,"backoff":[90]`, between: untilState("delayed"), codes: map[string]int{"-NAK": 409, "+WPI": 409}, state: "delayed",
		},
		"TTR over, backoff, finish": {
			fields: `,"ttr":0.3,"backoff":[90]`, between: untilState("delayed"), codes: map[string]int{"+ACK": 200}, state: "gone",
		},
		// Bury works in any state but dead, and no attempt is newer than this one.
		"TTR over, backoff, bury": {
			fields: `,"ttr":0.3,"backoff":[90]`, between: untilState("delayed"), codes: map[string]int{"+TERM": 200}, state: "dead",
		},
		"dead by its TTR": {
			fields: `,"ttr":0.3,"max_attempts":1`, between: untilState("dead"),
			codes: map[string]int{"-NAK": 409, "+WPI": 409, "+TERM": 409}, state: "dead",
		},
		"dead by its TTR, finish": {
			fields: `,"ttr":0.3,"max_attempts":1`, between: untilState("dead"), codes: map[string]int{"+ACK": 200}, state: "gone",
		},
		"buried, others": {
			between: settled("+TERM"),
			codes:   map[string]int{"-NAK": 409, "+WPI": 409}, state: "dead",
		},
		"earlier push": {
			between: pushedAnew(0), again: true,
			codes: map[string]int{"+ACK": 409, "": 409, "-NAK": 409, "+WPI": 409, "+TERM": 409}, state: "inflight",
		},
		"earlier push, delayed": {
			between: pushedAnew(99),
			codes:   map[string]int{"+ACK": 409, "-NAK": 409, "+WPI": 409, "+TERM": 409}, state: "delayed",
		},
		"gone": {
			between: finishedIt,
			codes:   map[string]int{"+ACK": 200, "-NAK": 404, "+WPI": 404, "+TERM": 404}, state: "gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "late." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w := r.work(t, topic)
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q%s}`, topic, topic, row.fields))
			d := w.next(t).is(t, topic, 1)
			if row.between != nil {
				row.between(t, w, d)
			}
			if row.again {
				w.next(t)
			}
			for verb, code := range row.codes {
				answer := d.say(t, verb)
				if code >= 400 {
					refused(t, answer, code, topic)
				} else if answer.Code != code {
					t.Errorf("%s: %s", verb, answer.raw)
				}
			}
			if row.state == "gone" {
				if n := r.finish(t, topic); n != 0 {
					t.Errorf("the job was still there")
				}
				return
			}
			if state := r.state(t, topic); state != row.state && row.state != "any" {
				t.Errorf("the job is %s instead of %s", state, row.state)
			}
			r.finish(t, topic)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// finishedIt finishes a delivery.
func finishedIt(t *testing.T, _ *worker, d *delivery) {
	t.Helper()
	d.finish(t)
}

// pushedAnew finishes a delivery and pushes its id again.
func pushedAnew(delay int) func(t *testing.T, w *worker, d *delivery) {
	return func(t *testing.T, _ *worker, d *delivery) {
		t.Helper()
		d.finish(t)
		d.w.rig.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%d}`, d.id(), d.id(), delay))
	}
}

// settled answers a delivery with a verb.
func settled(verb string) func(t *testing.T, w *worker, d *delivery) {
	return func(t *testing.T, _ *worker, d *delivery) {
		t.Helper()
		d.settle(t, verb)
	}
}

// untilState waits until a job is in a state.
func untilState(state string) func(t *testing.T, w *worker, d *delivery) {
	return func(t *testing.T, _ *worker, d *delivery) {
		t.Helper()
		testenv.Eventually(t, patience, func() bool { return d.w.rig.state(t, d.id()) == state }, "the job is "+state)
	}
}
