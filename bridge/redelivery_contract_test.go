package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestTTR: what is not finished comes again, not before its TTR and the pause that its backoff says.
func TestTTR(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		fields string
		gaps   []time.Duration // between the deliveries
		dead   bool            // after the last of them
	}{
		"ttr":                  {`"ttr":0.3`, []time.Duration{300 * ms, 300 * ms, 300 * ms}, false},
		"ttr as a string":      {`"ttr":"250ms"`, []time.Duration{250 * ms, 250 * ms}, false},
		"after a delay":        {`"ttr":0.3,"delay":0.2`, []time.Duration{300 * ms}, false},
		"backoff":              {`"ttr":0.2,"backoff":[0.3,"50ms"]`, []time.Duration{500 * ms, 250 * ms, 250 * ms}, false},
		"backoff empty":        {`"ttr":0.2,"backoff":[]`, []time.Duration{200 * ms}, false},
		"backoff of zero":      {`"ttr":0.2,"backoff":[0,0.3]`, []time.Duration{200 * ms, 500 * ms}, false},
		"max_attempts":         {`"ttr":0.2,"max_attempts":3`, []time.Duration{200 * ms, 200 * ms}, true},
		"max_attempts 1":       {`"ttr":0.2,"max_attempts":1`, nil, true},
		"max_attempts 0":       {`"ttr":0.1,"max_attempts":0`, []time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}, false},
		"max_attempts, pauses": {`"ttr":0.1,"max_attempts":2,"backoff":[0.2]`, []time.Duration{300 * ms}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "ttr." + strings.NewReplacer(" ", "_", ",", "").Replace(name)
			w, dead := r.work(t, topic), r.events(t, "dead."+topic)
			p := r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,%s}`, topic, topic, row.fields))
			first := w.next(t).is(t, topic, 1)
			// The TTR's clock starts when the server has the message, so never before the job was due.
			earliest := p.DueAt
			for i, gap := range row.gaps {
				d := w.next(t).is(t, topic, i+2)
				if earliest = earliest.Add(gap); d.at.Before(earliest) {
					t.Errorf("delivery %d comes %v too early", i+2, earliest.Sub(d.at))
				}
				if !d.due().Equal(first.due()) || !strings.Contains(string(d.Data), fmt.Sprintf(`,"attempt":%d,`, i+2)) {
					t.Errorf("delivery %d says %s, due at %v instead of %v", i+2, d.Data, d.due(), first.due())
				}
			}
			if row.dead {
				dead.next(t)
				w.quiet(t, 400*ms)
			}
			if n := r.finish(t, topic); n != 1 {
				t.Errorf("%d jobs were finished", n)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestDefaults: what a job does not say is as the bridge was told.
func TestDefaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.DefaultTTR, s.MaxAttempts = 300*time.Millisecond, 2 })
	w, dead := r.work(t, "default"), r.events(t, "dead.default")
	r.push(t, `{"id":"a","topic":"default"}`)
	w.next(t).is(t, "a", 1)
	w.next(t).is(t, "a", 2)
	if d := dead.next(t); d.Header.Get("Dq-Reason") != "max_attempts" || d.Header.Get("Dq-Attempt") != "2" {
		t.Errorf("died with %v", d.Header)
	}
	r.push(t, `{"id":"b","topic":"default","max_attempts":0}`)
	for i := range 4 {
		w.next(t).is(t, "b", i+1)
	}
	r.finish(t, "a")
	r.finish(t, "b")
	r.emptied(t)
}

// TestTouch: a touch starts the TTR again.
func TestTouch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "touch")
	r.push(t, `{"id":"a","topic":"touch","ttr":2,"max_attempts":2}`)
	d := w.next(t).is(t, "a", 1)
	w.quiet(t, 700*time.Millisecond)
	touched := time.Now()
	if s := d.settle(t, "+WPI"); s.DeadlineAt.Before(touched.Add(2*time.Second)) || s.State != "inflight" {
		t.Errorf("touched at %v: %+v", touched, s)
	}
	again := w.next(t).is(t, "a", 2)
	if again.at.Before(touched.Add(2 * time.Second)) {
		t.Errorf("delivered again %v after the touch", again.at.Sub(touched))
	}
	again.settle(t, "+WPI") // counts no attempt: the job is not dead
	again.settle(t, "+WPI")
	again.finish(t)
	r.emptied(t)
}

// TestRelease: a release counts the attempt, waits as it is told, and makes the job dead after the last one.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "release")
	dead := r.events(t, "dead.release")
	r.push(t, `{"id":"a","topic":"release","ttr":90,"max_attempts":5,"backoff":[0.3,60]}`)
	for i, row := range []struct {
		verb  string
		pause time.Duration
	}{
		{"-NAK", 300 * time.Millisecond},
		{`-NAK {"delay": 500000000}`, 500 * time.Millisecond},
		{`-NAK {"delay":0}`, 0},
		{`-NAK {"delay":100000000}`, 100 * time.Millisecond},
	} {
		d := w.next(t).is(t, "a", i+1)
		before := time.Now()
		d.settle(t, row.verb)
		testenv.Eventually(t, patience, func() bool { return w.count() == i+2 }, "the next delivery")
		if next := w.all()[i+1]; next.at.Before(before.Add(row.pause)) || next.at.After(before.Add(30*time.Second)) {
			t.Errorf("delivered %v after %s", next.at.Sub(before), row.verb)
		}
	}
	if s := w.next(t).is(t, "a", 5).settle(t, "-NAK"); s.State != "dead" {
		t.Errorf("the release of the last delivery: %+v", s)
	}
	dead.next(t)
	if n := r.finish(t, "a"); n != 1 {
		t.Errorf("%d jobs were finished", n)
	}
	r.emptied(t)
}

// TestTTRZero: the job is gone once it was handed over, and held until then.
func TestTTRZero(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, row := range map[string]struct{ fields, ttr string }{
		"zero": {`"ttr":0`, "0"}, "negative": {`"ttr":-3`, "0"}, "string": {`"ttr":"0s"`, "0"}, "delayed": {`"ttr":0,"delay":0.2`, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "zero." + name
			payload := fmt.Sprintf(`{"id":%q,"topic":%q,%s}`, topic, topic, row.fields)
			r.push(t, payload)
			r.tried(t)
			if p := r.push(t, payload); !p.Duplicate {
				t.Errorf("nobody listened and the job is gone: %+v", p)
			}
			w := r.work(t, topic)
			if d := w.next(t).is(t, topic, 1); d.Header.Get("Dq-Ttr") != row.ttr {
				t.Errorf("headers %v", d.Header)
			}
			testenv.Eventually(t, patience, func() bool { return r.finish(t, topic) == 0 }, "the job is gone by itself")
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// tried waits until the bridge has tried to deliver on a topic that nobody listens to, and has noticed.
func (r *rig) tried(t *testing.T) {
	t.Helper()
	r.main.hasReturned(t, r.main.metric(t, sampleReturned)+2)
}

// TestTTRZeroIsNotRedelivered, whatever its worker says of it and when.
func TestTTRZeroIsNotRedelivered(t *testing.T) {
	t.Parallel()
	for name, verb := range map[string]string{"touched": "+WPI", "finished": "+ACK", "garbage": "what"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.history.allowRepeats() // counted below
			w := r.handle(t, "zero", func(d *delivery) { _ = d.Respond([]byte(verb)) })
			// Large and due at once, so that the first are answered while the last are still sent.
			const jobs = 80
			at := time.Now().Add(time.Second).UTC().Format(wireTime)
			body := strings.Repeat("x", 20_000)
			for i := range jobs {
				r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"zero","ttr":0,"at":%q,"body":%q}`, i, at, body))
			}
			w.await(t, jobs)
			r.emptied(t)
			if n := w.count(); n != jobs {
				t.Errorf("%d deliveries of %d jobs", n, jobs)
			}
		})
	}
}
