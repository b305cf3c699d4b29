package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// out is a stream over ready subjects.
type out struct {
	jetstream.Stream
	rig *rig
}

// newOut is a rig with a stream named READY over ready subjects, made before the bridge starts.
func newOut(t *testing.T, change func(c *jetstream.StreamConfig), options ...func(*setup)) (*rig, *out) {
	t.Helper()
	r := newRig(t, append([]func(*setup){func(s *setup) {
		s.idle = true
		s.natsOptions = append(s.natsOptions, testenv.JetStream())
	}}, options...)...)
	c := jetstream.StreamConfig{Name: "READY", Subjects: []string{r.subject("ready.>")}, Storage: jetstream.MemoryStorage}
	if change != nil {
		change(&c)
	}
	stream, err := r.js(t).CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.main = r.start(t)
	return r, &out{Stream: stream, rig: r}
}

// holds reads how many messages the stream has.
func (o *out) holds(t *testing.T) int {
	t.Helper()
	info, err := o.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(info.State.Msgs)
}

// has waits until the stream has n messages.
func (o *out) has(t *testing.T, n int) {
	t.Helper()
	testenv.Eventually(t, patience, func() bool { return o.holds(t) == n }, fmt.Sprintf("the stream holds %d messages", n))
}

// stays checks that the stream keeps to n messages for a while.
func (o *out) stays(t *testing.T, n int) {
	t.Helper()
	pause(t, 100*time.Millisecond)
	if got := o.holds(t); got != n {
		t.Errorf("the stream holds %d messages instead of %d", got, n)
	}
}

// message reads a message of the stream as a delivery.
func (o *out) message(t *testing.T, seq int) *delivery {
	t.Helper()
	raw, err := o.GetMsg(t.Context(), uint64(seq))
	if err != nil {
		t.Fatal(err)
	}
	msg := &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}
	msg.Reply = raw.Header.Get("Dq-Ack")
	return &delivery{Msg: msg, at: raw.Time, w: &worker{rig: o.rig}}
}

// TestStreamTakesJobs: without a TTR a job is handed over once the stream has it; with one its consumers settle it by the
// subject in Dq-Ack, or by id.
func TestStreamTakesJobs(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, nil)
	const jobs = 200
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"zero-%d","topic":"t.%d","ttr":0}`, i, i%3))
	}
	stream.has(t, jobs)
	r.emptied(t)
	stream.stays(t, jobs)
	r.push(t, `{"id":"acked","topic":"t"}`)
	stream.has(t, jobs+1)
	d := stream.message(t, jobs+1).is(t, "acked", 1)
	answer, err := r.nc.Request(d.Header.Get("Dq-Ack"), []byte("+ACK"), patience)
	if err != nil || finished(t, envelopeOf(t, answer)) != 1 {
		t.Errorf("the ack is answered %v (%v)", answer, err)
	}
	r.push(t, `{"id":"named","topic":"t"}`)
	stream.has(t, jobs+2)
	if n := r.finish(t, "named"); n != 1 {
		t.Errorf("finished %d", n)
	}
	r.emptied(t)
	if line := r.admin(t, "topics", `{}`); line.Code != 200 {
		t.Error(line.raw)
	}
}

// TestStreamGetsEachAttempt is C26: redeliveries are messages of their own, also where an id is pushed anew.
func TestStreamGetsEachAttempt(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, nil)
	r.push(t, `{"id":"a","topic":"t","ttr":0.3}`)
	stream.has(t, 4)
	r.finish(t, "a")
	n := stream.holds(t)
	for i := range n {
		stream.message(t, i+1).is(t, "a", i+1)
	}
	r.push(t, `{"id":"a","topic":"t","ttr":60}`)
	stream.has(t, n+1)
	stream.message(t, n+1).is(t, "a", 1)
	r.finish(t, "a")
	r.emptied(t)
}

// TestFullStream holds jobs as if nobody listened, counts no attempt, and lets them go when it has room again.
func TestFullStream(t *testing.T) {
	t.Parallel()
	t.Run("fast", func(t *testing.T) {
		t.Parallel()
		fullStream(t, jetstream.MemoryStorage)
	})
	// Its answers come long after the barriers.
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		fullStream(t, jetstream.FileStorage, func(s *setup) {
			s.natsOptions = append(s.natsOptions, func(o *server.Options) { o.SyncAlways = true })
		})
	})
}

func fullStream(t *testing.T, storage jetstream.StorageType, options ...func(*setup)) {
	t.Helper()
	const room = 5
	r, stream := newOut(t, func(c *jetstream.StreamConfig) {
		c.Storage, c.Discard, c.MaxMsgs = storage, jetstream.DiscardNew, room
	}, options...)
	const jobs = 40
	for i := range jobs {
		ttr := i % 2 * 600
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":%d,"max_attempts":1}`, i, ttr))
	}
	stream.has(t, room)
	seen := map[string]bool{}
	for len(seen) < jobs {
		if n := stream.holds(t); n > room {
			t.Fatalf("the stream holds %d messages", n)
		}
		// What it does not hold is ready or being tried, none is dead or gone.
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			d := stream.message(t, int(seq)).is(t, stream.message(t, int(seq)).id(), 1)
			if seen[d.id()] {
				t.Errorf("%s is in the stream twice", d.id())
			}
			seen[d.id()] = true
		}
		if len(seen) == room {
			pause(t, 1500*time.Millisecond) // long enough for tries that fail
			r.main.hasReturned(t, 3)
		}
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(info.State.LastSeq+1)); err != nil {
			t.Fatal(err)
		}
		if len(seen) < jobs {
			testenv.Eventually(t, patience, func() bool { return stream.holds(t) > 0 }, "jobs come when there is room")
		}
	}
	testenv.Eventually(t, patience, func() bool { return r.topic(t, "t").Inflight == jobs/2 }, "the jobs with a TTR are in flight")
	for i := 1; i < jobs; i += 2 {
		if job := r.look(t, fmt.Sprintf("job-%d", i)); job.State != "inflight" || job.Attempt != 1 {
			t.Errorf("%+v", job)
		}
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	r.emptied(t)
}

// TestFullStreamCostsLittle: while a stream is full, its topic is probed and not flooded.
func TestFullStreamCostsLittle(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardNew, 1 })
	for range 30 {
		r.ask(t, r.msg("push", `[{"topic":"t"}`+strings.Repeat(`,{"topic":"t"}`, 9)+`]`))
	}
	stream.has(t, 1)
	pause(t, 2*time.Second)
	before := r.main.metric(t, "dqbridge_returned_total")
	pause(t, 3*time.Second)
	if tries := r.main.metric(t, "dqbridge_returned_total") - before; tries < 1 || tries > 40 {
		t.Errorf("%v tries in 3 s", tries)
	}
	if line := r.topic(t, "t"); line.Ready < 298 || line.Dead != 0 || line.Listening == nil || *line.Listening {
		t.Errorf("%+v", line)
	}
}

// TestSubscriberBesideStream: both get each job once, whoever of them finishes it.
func TestSubscriberBesideStream(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, nil)
	w := r.work(t, "t")
	const jobs = 50
	for i := range jobs {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":%d}`, i, i%2*60))
	}
	for _, d := range w.await(t, jobs) {
		if d.Header.Get("Dq-Ttr") != "0" {
			d.is(t, d.id(), 1).finish(t)
		}
	}
	stream.has(t, jobs)
	r.emptied(t)
	stream.stays(t, jobs)
	if w.count() != jobs {
		t.Errorf("%d deliveries of %d jobs", w.count(), jobs)
	}
}

// TestStreamOverSomeTopics: the others have their listeners as ever.
func TestStreamOverSomeTopics(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, func(c *jetstream.StreamConfig) {
		prefix := c.Subjects[0][:len(c.Subjects[0])-1]
		c.Subjects = []string{prefix + "mail.*", prefix + "sms"}
	})
	r.push(t, `{"id":"a","topic":"mail.eu","ttr":0}`)
	r.push(t, `{"id":"b","topic":"sms","ttr":0}`)
	r.push(t, `{"id":"c","topic":"mail","ttr":0}`)
	r.push(t, `{"id":"d","topic":"mail.eu.x","ttr":0}`)
	stream.has(t, 2)
	w := r.work(t, ">")
	for range 2 {
		if d := w.next(t); d.id() != "c" && d.id() != "d" {
			t.Errorf("delivered %s", d.id())
		}
	}
	r.emptied(t)
	stream.stays(t, 2)
}

// TestStreamWithoutAcks: it is told in the log, and jobs without a TTR go with their handover.
func TestStreamWithoutAcks(t *testing.T) {
	t.Parallel()
	r, stream := newOut(t, func(c *jetstream.StreamConfig) { c.NoAck = true })
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":0}`, i))
	}
	stream.has(t, 20)
	r.emptied(t)
	testenv.Eventually(t, patience, func() bool { return r.main.log.has("stream confirms nothing") }, "the log tells it")
}

// TestStreamWithoutAnswer: a job without a TTR stays until a stream says that it has it. Its own dedupe makes one message
// of what is handed over again.
func TestStreamWithoutAnswer(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t, testenv.JetStream())
	way := testenv.NewProxy(t, server.Addr())
	r, stream := newOut(t, nil, func(s *setup) { s.nats, s.natsURL = server, "nats://"+way.Addr() })
	r.history.allowRepeats()
	r.push(t, `{"id":"first","topic":"t","ttr":0}`)
	stream.has(t, 1)
	r.emptied(t)
	// The stream gets the job, and its answer is lost with the connection.
	r.push(t, `{"id":"a","topic":"t","ttr":0,"delay":1}`)
	way.Hold(testenv.ToClient)
	stream.has(t, 2)
	way.Drop()
	way.Heal()
	r.emptied(t)
	stream.stays(t, 2)
	stream.message(t, 2).is(t, "a", 1)
}

// TestStreamMadeLater is heard of within seconds, and one that goes too.
func TestStreamMadeLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.natsOptions = append(s.natsOptions, testenv.JetStream()) })
	r.push(t, `{"id":"a","topic":"t","ttr":0}`)
	r.tried(t)
	makeStream(t, r.nc, "READY", r.Prefix, []string{"dq.ready.>"})
	r.emptied(t)
	deleteStream(t, r.nc, "READY")
	r.push(t, `{"id":"b","topic":"t","ttr":0}`)
	r.tried(t)
	w := r.work(t, "t")
	w.next(t).is(t, "b", 1)
	r.emptied(t)
}

// TestStreamsMayNotBeAskedFor: a bridge that may not use JetStream's API works as if there were no streams.
func TestStreamsMayNotBeAskedFor(t *testing.T) {
	t.Parallel()
	prefix := testenv.Prefix(t)
	server := testenv.NATS(t, testenv.JetStream(), users(prefix, "$JS.>"))
	r := newRig(t, func(s *setup) {
		s.Prefix, s.nats = prefix, server
		s.natsURL = "nats://bridge:secret-b@" + server.Addr()
		s.client = []nats.Option{nats.UserInfo("all", "secret-a")}
	})
	w := r.work(t, "t")
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":0}`, i))
	}
	w.await(t, 20)
	r.emptied(t)
}
