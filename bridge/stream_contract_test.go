package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestPushStreamIsMade: the stream is made as section 8 says, and pushes come through it alone.
func TestPushStreamIsMade(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	stream, err := r.js(t).Stream(t.Context(), pushStream)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if !slices.Equal(c.Subjects, []string{r.subject("push"), r.subject("push.>")}) || c.Retention != jetstream.WorkQueuePolicy ||
		c.Storage != jetstream.FileStorage || c.MaxAge != 0 {
		t.Errorf("made as %+v", c)
	}
	w := r.work(t, "t")
	// A request is answered once, by the stream.
	sub, err := r.nc.SubscribeSync(r.nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	msg := r.msg("push.t", `{"id":"a"}`)
	msg.Reply = sub.Subject
	r.send(t, msg)
	answer, err := sub.NextMsg(patience)
	if err != nil || !strings.HasPrefix(string(answer.Data), `{"stream":"PUSHES"`) {
		t.Fatalf("answered %v (%v)", answer, err)
	}
	w.next(t).is(t, "a", 1).finish(t)
	r.drained(t)
	if more, err := sub.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("answered once more: %s", more.Data)
	}
	if w.count() != 1 {
		t.Errorf("delivered %d times", w.count())
	}
	r.emptied(t)
}

// TestPushStreamIDs: an id that is not given comes from the message's place in the stream.
func TestPushStreamIDs(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	w := r.work(t, "one")
	one := strconv.FormatUint(r.pushTo(t, r.msg("push", `{"topic":"one"}`)), 10)
	w.next(t).is(t, "PUSHES-"+one, 1).finish(t)
	many := strconv.FormatUint(r.pushTo(t, r.msg("push.t", `[{},{"id":"own"},{"body":1}]`)), 10)
	var got []string
	for _, d := range r.work(t, "t").await(t, 3) {
		got = append(got, d.id())
		d.finish(t)
	}
	if want := []string{"PUSHES-" + many + "-0", "PUSHES-" + many + "-2", "own"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("ids %q, want %q", got, want)
	}
	r.pushTo(t, r.msg("push", `{"topic":"one"}`, "Nats-Msg-Id: m"))
	w.next(t).is(t, "m", 1).finish(t)
	r.pushTo(t, r.msg("push", "bytes", "Dq-Topic: one"))
	if d := w.next(t); string(d.Data) != "bytes" || !strings.HasPrefix(d.id(), "PUSHES-") {
		t.Errorf("delivered %q %s", d.Data, d.id())
	} else {
		d.finish(t)
	}
	r.drained(t)
	r.emptied(t)
}

// TestPushStreamMadeAnew: the places in a new stream begin at 1 again, while jobs of the old one are still stored.
func TestPushStreamMadeAnew(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	for range 3 {
		r.pushTo(t, r.msg("push", `{"topic":"later","delay":600}`))
	}
	r.drained(t)
	deleteStream(t, r.nc, pushStream)
	testenv.Eventually(t, 2*patience, func() bool {
		_, err := r.js(t).Consumer(t.Context(), pushStream, "dqbridge")
		return err == nil
	}, "the stream is made anew")
	for i := range 3 {
		r.pushTo(t, r.msg("push", fmt.Sprintf(`{"topic":"later","delay":600,"on_duplicate":%q}`, []string{"keep", "replace"}[i%2])))
	}
	r.drained(t)
	if line := r.topic(t, "later"); line.Delayed != 6 {
		t.Errorf("%d of 6 jobs are stored", line.Delayed)
	}
}

// TestPushesWhileNoBridgeRuns wait in the stream.
func TestPushesWhileNoBridgeRuns(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	if err := r.main.stop(t); err != nil {
		t.Fatal(err)
	}
	const jobs = 500
	r.publishMany(t, jobs, numbered)
	w := r.member(t, r.nc, "t", "workers")
	r.start(t)
	for _, d := range w.await(t, jobs) {
		d.finish(t)
	}
	r.drained(t)
	r.emptied(t)
}

// TestPushStreamOutcomes: what is wrong is announced and ended, once, and holds up nothing.
func TestPushStreamOutcomes(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	rejected := r.events(t, "rejected")
	ended := &worker{rig: r}
	ended.subscribe(t, r.nc, "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED."+pushStream+".>", "")
	r.pushTo(t, r.msg("push", `{"id":"held","topic":"t","delay":600}`))
	for _, row := range []struct {
		payload, code, text string
	}{
		{`{`, "400", "JSON"},
		{``, "400", "empty"},
		{`null`, "400", "payload"},
		{`[]`, "400", "array"},
		{"\xff\xfe", "400", "payload"},
		{`{"topic":"*"}`, "400", "topic"},
		{strings.Repeat("[", 900_000), "400", ""},
		{`{"topic":"t","body":"` + strings.Repeat("x", 1_000_000) + `"}`, "413", "body"},
		{`{"id":"held","topic":"u"}`, "409", "held"},
	} {
		r.pushTo(t, r.msg("push", row.payload))
		d := rejected.next(t)
		if string(d.Data) != row.payload || d.Header.Get("Dq-Error-Code") != row.code || !strings.Contains(d.Header.Get("Dq-Error"), row.text) {
			t.Errorf("%.60s: announced %.60s %v", row.payload, d.Data, d.Header)
		}
		ended.next(t)
	}
	r.pushTo(t, r.msg("push", `[{"id":"good","topic":"t","delay":600},{"topic":"*"},7]`))
	for i, index := range []string{"1", "2"} {
		if d := rejected.next(t); d.Header.Get("Dq-Index") != index || string(d.Data) != []string{`{"topic":"*"}`, `7`}[i] {
			t.Errorf("announced %s %v", d.Data, d.Header)
		}
	}
	r.drained(t)
	r.arrives(t, "good")
	if info := r.consumer(t); info.NumRedelivered != 0 {
		t.Errorf("%d messages were sent again", info.NumRedelivered)
	}
	rejected.quiet(t, 100*time.Millisecond)
}

// TestGoodBehindBad is C25: a good push behind 100 bad ones is stored within a second, and each bad one handled once.
func TestGoodBehindBad(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	rejected := r.events(t, "rejected")
	const bad = 100
	r.publishMany(t, bad+1, func(i int) string {
		if i < bad {
			return []string{`{`, ``, `null`, `[]`, strings.Repeat("[", 9_000), "\xff", `{"topic":"*"}`}[i%7]
		}
		return `{"id":"good","topic":"t"}`
	})
	published := time.Now()
	r.arrives(t, "good")
	if took := time.Since(published); took > 3*time.Second { // a second, but the machine may be busy
		t.Errorf("stored only after %v", took)
	}
	rejected.await(t, bad)
	r.drained(t)
	pause(t, 100*time.Millisecond)
	if n := rejected.count(); n != bad {
		t.Errorf("%d announcements of %d bad pushes", n, bad)
	}
	if info := r.consumer(t); info.NumRedelivered != 0 {
		t.Errorf("%d messages were sent again", info.NumRedelivered)
	}
}

// TestReplaceFromStream: a push that would replace a job in flight comes again until the flight ends.
func TestReplaceFromStream(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	rejected := r.events(t, "rejected")
	w := r.watch(t, "t")
	r.pushTo(t, r.msg("push", `{"id":"a","topic":"t","body":1}`))
	d := w.next(t).is(t, "a", 1)
	const array = `[{"id":"a","topic":"t","body":2,"on_duplicate":"replace"},{"id":"b","topic":"t","delay":600},{"topic":"*"}]`
	r.pushTo(t, r.msg("push", array))
	r.arrives(t, "b")
	// It has come again, and other pushes pass by.
	testenv.Eventually(t, patience, func() bool { return r.consumer(t).NumRedelivered == 1 }, "the message is sent again")
	r.pushTo(t, r.msg("push", `{"id":"c","topic":"t","delay":600}`))
	r.arrives(t, "c")
	rejected.quiet(t, 50*time.Millisecond)
	d.settle(t, "-NAK")
	for d = w.next(t); !strings.Contains(string(d.Data), `"body":2`); d = w.next(t) {
		d.settle(t, `-NAK {"delay": 1000000000}`)
	}
	d.is(t, "a", 1).finish(t)
	if d := rejected.next(t); d.Header.Get("Dq-Index") != "2" {
		t.Errorf("announced %s %v", d.Data, d.Header)
	}
	r.drained(t)
	rejected.quiet(t, 50*time.Millisecond)
}

// TestRedeliveredPush: a message whose ack was lost makes no second job, also when its job was finished meanwhile.
func TestRedeliveredPush(t *testing.T) {
	t.Parallel()
	server, redis := testenv.NATS(t, testenv.JetStream()), testenv.SharedRedis(t)
	natsWay, redisWay := testenv.NewProxy(t, server.Addr()), testenv.NewProxy(t, redis.Addr())
	r := newStreamRig(t, func(s *setup) {
		s.nats = server
		s.natsURL, s.redisURL = "nats://"+natsWay.Addr(), "redis://"+redisWay.Addr()
	})
	w := r.work(t, "t")
	// It stores what it got only when it can tell nobody any more.
	redisWay.Hold(testenv.ToServer)
	r.pushTo(t, r.msg("push", `{"id":"a","topic":"t"}`))
	r.pushTo(t, r.msg("push", `[{"topic":"t"},{"id":"x","topic":"t","on_duplicate":"replace"}]`))
	testenv.Eventually(t, patience, func() bool { return r.consumer(t).NumAckPending == 2 }, "the bridge has the messages")
	natsWay.Hold(testenv.ToServer)
	redisWay.Heal()
	stored := func() bool {
		n := 0
		for b := range r.buckets {
			n += int(redis.Client().ZCard(t.Context(), fmt.Sprintf("%s:{%d}:seen", r.Prefix, b)).Val())
		}
		return n == 3
	}
	testenv.Eventually(t, patience, stored, "Redis holds the jobs")
	natsWay.Cut()
	other := r.start(t, func(s *setup) { s.natsURL, s.redisURL = s.nats.URL(), s.redis.URL() })
	for _, d := range w.await(t, 3) {
		d.finish(t)
	}
	testenv.Eventually(t, patience, func() bool { return len(r.leftovers(t)) == 0 || r.consumer(t).NumAckPending == 2 }, "finished")
	r.drained(t)
	other.counts(t, `dqbridge_pushes_total{code="200"}`, 3)
	pause(t, 100*time.Millisecond)
	if w.count() != 3 {
		t.Errorf("%d deliveries of 3 jobs", w.count())
	}
	// What the stream has the acks of is forgotten.
	r.emptied(t)
}

// TestPushStreamWhileRedisIsAway is C09 and C81: nothing is lost, none is ended, and all is stored soon after.
func TestPushStreamWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redisWay := testenv.NewProxy(t, testenv.SharedRedis(t).Addr())
	r := newStreamRig(t, func(s *setup) { s.redisURL = "redis://" + redisWay.Addr() })
	rejected := r.events(t, "rejected")
	w := r.handle(t, "t", func(d *delivery) { _ = d.Ack() })
	const jobs, away = 2000, 12 * time.Second
	redisWay.Cut()
	r.publishMany(t, jobs, numbered)
	for over := time.Now().Add(away); time.Now().Before(over); pause(t, 500*time.Millisecond) {
		if info := r.consumer(t); info.AckFloor.Stream != 0 || info.NumRedelivered != 0 {
			t.Fatalf("while Redis is away: ack floor %d, %d sent again", info.AckFloor.Stream, info.NumRedelivered)
		}
	}
	redisWay.Heal()
	back := time.Now()
	r.drained(t)
	if took := time.Since(back); took > 8*time.Second {
		t.Errorf("drained only %v after Redis came back", took)
	}
	r.emptied(t)
	if w.jobs() != jobs {
		t.Errorf("%d of %d jobs came", w.jobs(), jobs)
	}
	rejected.quiet(t, 50*time.Millisecond)
}

// TestPushStreamOnASlowRedis is C82: two replicas, messages without ids among them, one job for each.
func TestPushStreamOnASlowRedis(t *testing.T) {
	t.Parallel()
	redisWay := testenv.NewProxy(t, testenv.SharedRedis(t).Addr())
	r := newStreamRig(t, func(s *setup) { s.redisURL = "redis://" + redisWay.Addr() })
	r.start(t)
	w := r.handle(t, "t", func(d *delivery) { _ = d.Ack() })
	redisWay.Delay(testenv.ToClient, 300*time.Millisecond)
	const named, unnamed = 1000, 100
	r.publishMany(t, named+unnamed, func(i int) string {
		if i%11 == 0 {
			return `{"topic":"t"}`
		}
		return numbered(i)
	})
	r.drained(t)
	redisWay.Heal()
	r.emptied(t)
	if w.jobs() != named+unnamed || w.count() != named+unnamed {
		t.Errorf("%d deliveries of %d jobs", w.count(), w.jobs())
	}
}

// TestPushStreamShutdown: a replica that leaves in the middle gives back what it has not begun, at once.
func TestPushStreamShutdown(t *testing.T) {
	t.Parallel()
	redisWay := testenv.NewProxy(t, testenv.SharedRedis(t).Addr())
	r := newStreamRig(t, func(s *setup) { s.redisURL = "redis://" + redisWay.Addr() })
	w := r.member(t, r.nc, "t", "workers")
	redisWay.Cut()
	const jobs = 300
	r.publishMany(t, jobs, numbered)
	testenv.Eventually(t, patience, func() bool { return r.consumer(t).NumAckPending == jobs }, "the bridge has all")
	r.start(t, func(s *setup) { s.redisURL = s.redis.URL() })
	left := time.Now()
	if err := r.main.stop(t); err != nil {
		t.Error(err)
	}
	r.drained(t)
	took := time.Since(left)
	t.Logf("taken over %v after the end", took)
	if took > 4*time.Second { // without a word it would take more than 5 s
		t.Errorf("taken over only after %v", took)
	}
	for _, d := range w.await(t, jobs) {
		d.finish(t)
	}
	r.emptied(t)
}

// TestPushStreamSettings: a stream that would lose or miss pushes is an error that says what is wrong.
func TestPushStreamSettings(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t, testenv.JetStream())
	for name, row := range map[string]struct {
		change func(c *jetstream.StreamConfig)
		want   []string // in the error; none: it serves
		warns  string
	}{
		"as it is made": {func(*jetstream.StreamConfig) {}, nil, ""},
		"memory":        {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, nil, "in memory"},
		"no ack":        {func(c *jetstream.StreamConfig) { c.NoAck = true }, nil, "confirms nothing"},
		"discard new": {func(c *jetstream.StreamConfig) {
			c.Discard, c.MaxMsgs, c.MaxBytes, c.MaxMsgSize = jetstream.DiscardNew, 10, 1<<20, 1000
		}, nil, ""},
		"push alone":    {func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] }, []string{"subjects", "push.>"}, ""},
		"topics alone":  {func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[1:] }, []string{"subjects", "push"}, ""},
		"something too": {func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, c.Name+".x") }, []string{"subjects", ".x"}, ""},
		"limits":        {func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, []string{"retention", "Limits", "WorkQueue"}, ""},
		"interest":      {func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, []string{"retention", "Interest"}, ""},
		"max age":       {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, []string{"max_age", "1h0m0s"}, ""},
		"max messages":  {func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }, []string{"discard", "max_msgs 10"}, ""},
		"max bytes":     {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, []string{"discard", "max_bytes 1048576"}, ""},
		"per subject":   {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, []string{"discard", "max_msgs_per_subject 1"}, ""},
		"new, per subject": {func(c *jetstream.StreamConfig) {
			c.Discard, c.MaxMsgsPerSubject = jetstream.DiscardNew, 1
		}, []string{"discard_new_per_subject"}, ""},
		"two faults": {func(c *jetstream.StreamConfig) {
			c.Retention, c.MaxAge = jetstream.LimitsPolicy, time.Hour
		}, []string{"retention", "max_age"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) { s.nats, s.idle = server, true })
			c := jetstream.StreamConfig{
				Name: "S" + r.Prefix, Subjects: []string{r.subject("push"), r.subject("push.>")}, Retention: jetstream.WorkQueuePolicy,
			}
			r.PushStream = c.Name
			row.change(&c)
			if _, err := r.js(t).CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if row.want == nil {
				b := r.start(t)
				if row.warns != "" && !b.log.has(row.warns) {
					t.Error("no warning in the log")
				}
				return
			}
			err := r.run(t).wait(t)
			if !errors.Is(err, bridge.ErrPushStream) {
				t.Fatalf("ended with %v", err)
			}
			for _, text := range append(row.want, c.Name) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v does not name %q", err, text)
				}
			}
		})
	}
}

// TestPushStreamCannotBe: reasons why a bridge refuses to start that lie beside the stream.
func TestPushStreamCannotBe(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		options func(s *setup)
		before  func(t *testing.T, r *rig)
		kind    error
		text    string
	}{
		"no JetStream": {func(s *setup) { s.natsOptions = nil }, func(*testing.T, *rig) {}, bridge.ErrPushStream, "not enabled"},
		"another stream has the subject": {func(*setup) {}, func(t *testing.T, r *rig) {
			t.Helper()
			makeStream(t, r.nc, "OTHER", r.Prefix, []string{"dq.push.mail"})
		}, bridge.ErrStream, "OTHER"},
		"it has more": {func(*setup) {}, func(t *testing.T, r *rig) {
			t.Helper()
			makeStream(t, r.nc, pushStream, r.Prefix, []string{"dq.>"})
		}, bridge.ErrStream, pushStream},
		"another consumer": {func(*setup) {}, func(t *testing.T, r *rig) {
			t.Helper()
			stream, err := r.js(t).CreateStream(t.Context(), jetstream.StreamConfig{
				Name: pushStream, Subjects: []string{r.subject("push"), r.subject("push.>")}, Retention: jetstream.WorkQueuePolicy,
			})
			if err == nil {
				_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "mine"})
			}
			if err != nil {
				t.Fatal(err)
			}
		}, bridge.ErrPushStream, "consumer"},
		"a bridge without it": {func(*setup) {}, func(t *testing.T, r *rig) {
			t.Helper()
			r.start(t, func(s *setup) { s.PushStream = "" })
		}, bridge.ErrPushStream, "DQ_PUSH_STREAM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStreamRig(t, func(s *setup) { s.idle = true }, row.options)
			row.before(t, r)
			err := r.run(t).wait(t)
			if !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.text) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// TestPushStreamIsTold: figures and readiness know of the stream.
func TestPushStreamIsTold(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	r.main.ready(t, 200, patience)
	w := r.watch(t, "t")
	r.pushTo(t, r.msg("push", `{"id":"a","topic":"t"}`))
	w.next(t).is(t, "a", 1)
	r.pushTo(t, r.msg("push", `{"id":"a","topic":"t","on_duplicate":"replace"}`))
	r.main.until(t, "dqbridge_push_stream_ack_pending", func(got float64) bool { return got == 1 })
	r.main.counts(t, "dqbridge_push_stream_pending", 0)
	r.finish(t, "a")
	w.next(t).is(t, "a", 1).finish(t)
	r.main.until(t, "dqbridge_push_stream_ack_pending", func(got float64) bool { return got == 0 })
	r.nats.Restart()
	testenv.Eventually(t, 2*patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.js(t).Publish(ctx, r.subject("push"), []byte(`{"id":"b","topic":"t"}`))
		return err == nil
	}, "the stream takes pushes again")
	w.next(t).is(t, "b", 1).finish(t)
	r.drained(t)
}

// TestPushStreamPermissions: the bridge needs no more of JetStream than the contract says.
func TestPushStreamPermissions(t *testing.T) {
	t.Parallel()
	prefix := testenv.Prefix(t)
	guarded := testenv.NATS(t, testenv.JetStream(), users(prefix), func(o *server.Options) {
		o.Users[0].Permissions = &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{
			prefix + ".>", "_INBOX.>", "$SRV.>", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE." + pushStream,
			"$JS.API.CONSUMER.*." + pushStream + ".>", "$JS.API.CONSUMER.MSG.NEXT." + pushStream + ".dqbridge",
			"$JS.ACK." + pushStream + ".dqbridge.>",
		}}}
	})
	r := newStreamRig(t, func(s *setup) {
		s.Prefix, s.nats = prefix, guarded
		s.natsURL = "nats://bridge:secret-b@" + guarded.Addr()
		s.client = []nats.Option{nats.UserInfo("all", "secret-a")}
	})
	w := r.work(t, "t")
	r.pushTo(t, r.msg("push", `{"id":"a","topic":"t"}`))
	w.next(t).is(t, "a", 1).finish(t)
	r.pushTo(t, r.msg("push", `{`))
	r.drained(t)
	r.emptied(t)
	if r.main.log.has("Permissions Violation") {
		t.Error("it wants more")
	}
}
