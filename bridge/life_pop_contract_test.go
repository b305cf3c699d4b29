package bridge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLifePopNone: a pop that finds nothing says so, at once or after its wait.
func TestLifePopNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for payload, wait := range map[string]time.Duration{
		"": 0, "{}": 0, `{"wait":0}`: 0, `{"wait":null}`: 0, `{"wait":-3}`: 0, `{"wait":"0s"}`: 0, "{ }\n": 0,
		`{"wait":"1s"}`: time.Second, `{"wait":0.7}`: 700 * time.Millisecond, `{"wait":1}`: time.Second, `{"wait":"350ms"}`: 350 * time.Millisecond,
	} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			answer := envelopeOf(t, r.pop(t, "none.a", payload))
			took := time.Since(began)
			refused(t, answer, 404)
			if answer.raw != `{"code":404,"message":"no job at present","data":null}` && answer.raw != `{"code":404,"message":"no job at present"}` {
				t.Errorf("replied %s", answer.raw)
			}
			if took < wait || took > wait+2*time.Second {
				t.Errorf("answered after %v instead of %v", took, wait)
			}
		})
	}
}

// TestLifePopRefused: what is wrong is named, and takes no job.
func TestLifePopRefused(t *testing.T) { //nolint:tparallel // what follows the rows looks at their outcome
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"wrong","max_attempts":1}`)
	for payload, names := range map[string]string{
		`{"wait":"61s"}`: "wait", `{"wait":60.001}`: "wait", `{"wait":"1m0.001s"}`: "wait", `{"wait":1e30}`: "wait", `{"wait":"soon"}`: "wait",
		`{"wait":true}`: "wait", `{"wait":[1]}`: "wait", `{"wait":{}}`: "wait", `{"wiat":1}`: "wiat", `{"Wait":1}`: "Wait", `{"wait":1,"limit":1}`: "limit",
		`{"wait":1,"wait":1}`: "", `[]`: "", `5`: "", `"1s"`: "", `1s`: "", `{`: "", `{"wait":1}{}`: "", `null x`: "", "\xff": "", " ": "",
	} {
		t.Run(payload, func(t *testing.T) {
			refused(t, envelopeOf(t, r.pop(t, "wrong", payload)), 400, names)
		})
	}
	for _, topic := range []string{strings.Repeat("a.", 16) + "a", strings.Repeat("a", 201), "a\u200bb"} {
		refused(t, envelopeOf(t, r.pop(t, topic, "")), 400, "topic")
	}
	rejected := r.events(t, "rejected")
	r.send(t, r.msg("pop.wrong", ""))
	if d := rejected.next(t); d.Header.Get("Dq-Error-Code") != "400" {
		t.Errorf("a pop without a reply subject: %v", d.Header)
	}
	r.popped(t, "wrong", `{"wait":60}`).is(t, "a", 1).finish(t)
	r.emptied(t)
}

// TestLifePopMessage: what a pop gets is the very message that a subscriber gets.
func TestLifePopMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, headers := range map[string][]string{"json": {"X-Trace: a", "X-Trace: b"}, "raw": {"Dq-Ttr: 50", "X-Trace: a"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "message." + name
			push := func(id string) {
				if name == "json" {
					r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":50,"body":{"a":1e2},"headers":{"Y":["1"]}}`, id, topic), headers...)
					return
				}
				r.push(t, "\x00\xff{", append([]string{"Dq-Id: " + id, "Dq-Topic: " + topic}, headers...)...)
			}
			push("popped-" + name)
			d := r.popped(t, topic, `{"wait":"5s"}`).is(t, "popped-"+name, 1)
			w := r.work(t, topic)
			push("served-" + name)
			s := w.next(t).is(t, "served-"+name, 1)
			if have, want := slices.Sorted(maps.Keys(d.Header)), slices.Sorted(maps.Keys(s.Header)); !slices.Equal(have, want) {
				t.Errorf("headers %q instead of %q", have, want)
			}
			for _, same := range []string{"Dq-Topic", "Dq-Attempt", "Dq-Ttr", "X-Trace", "Y"} {
				if !slices.Equal(d.Header[same], s.Header[same]) {
					t.Errorf("%s is %q instead of %q", same, d.Header[same], s.Header[same])
				}
			}
			if name == "raw" && string(d.Data) != string(s.Data) {
				t.Errorf("payload %q", d.Data)
			}
			if name == "json" {
				var a, b map[string]any
				if err := json.Unmarshal(d.Data, &a); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(s.Data, &b); err != nil {
					t.Fatal(err)
				}
				for _, differs := range []string{"id", "due_at", "pushed_at"} {
					if a[differs] == nil {
						t.Errorf("payload %s", d.Data)
					}
					delete(a, differs)
					delete(b, differs)
				}
				if fmt.Sprint(a) != fmt.Sprint(b) {
					t.Errorf("payload %s instead of %s", d.Data, s.Data)
				}
			}
			d.finish(t)
			s.finish(t)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifePopVerbs: the reply subject of a popped job takes all verbs, and its TTR runs.
func TestLifePopVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t","ttr":1}`)
	r.popped(t, "t", `{"wait":5}`).is(t, "a", 1).settle(t, "-NAK")
	d := r.popped(t, "t", `{"wait":5}`).is(t, "a", 2)
	if s := d.settle(t, "+WPI"); s.State != "inflight" {
		t.Errorf("touched: %+v", s)
	}
	r.none(t, "t", "", "no job at present")
	d = r.popped(t, "t", `{"wait":10}`).is(t, "a", 3) // its TTR is over
	if s := d.settle(t, "+TERM why"); s.State != "dead" {
		t.Errorf("buried: %+v", s)
	}
	r.none(t, "t", "", "no job at present")
	said(t, r.admin(t, "kick", `{"id":"a"}`), `{"kicked":1}`)
	r.popped(t, "t", `{"wait":10}`).is(t, "a", 1).finish(t)
	r.emptied(t)
}

// TestLifePopAtOnce: a pop that does not wait gets a job that was stored before it, also where nobody else listens.
func TestLifePopAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs = 100
	missed := 0
	for i := range jobs {
		topic := fmt.Sprintf("once.%d", i%10)
		r.push(t, fmt.Sprintf(`{"topic":%q}`, topic))
		asked := time.Now()
		answer := r.pop(t, topic, "")
		if answer.Header.Get("Dq-Ack") == "" {
			// A bridge that finds no time for it within a second may give up.
			if time.Since(asked) < time.Second {
				missed++
			}
			answer = r.popped(t, topic, `{"wait":5}`).Msg
		}
		r.finish(t, answer.Header.Get("Dq-Id"))
	}
	if missed > 0 {
		t.Errorf("%d of %d pops are told that there is no job while one is stored and due", missed, jobs)
	}
	r.emptied(t)
}

// TestLifePopWhen: a pop gets what is ready, what becomes due during its wait, and never a job before that.
func TestLifePopWhen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	t.Run("silent topic", func(t *testing.T) {
		t.Parallel()
		r.push(t, `{"id":"silent","topic":"silent"}`)
		r.tried(t)
		r.popped(t, "silent", "").is(t, "silent", 1).finish(t)
	})
	t.Run("due during the wait", func(t *testing.T) {
		t.Parallel()
		p := r.push(t, `{"id":"due","topic":"due","delay":0.6}`)
		r.none(t, "due", "", "no job at present")
		d := r.popped(t, "due", `{"wait":10}`).is(t, "due", 1)
		if d.at.Before(p.DueAt) {
			t.Errorf("popped %v before it is due", p.DueAt.Sub(d.at))
		}
		d.finish(t)
	})
	t.Run("beside a subscriber", func(t *testing.T) {
		t.Parallel()
		w := r.work(t, "beside")
		answers := make(chan *nats.Msg, 1)
		sub, err := r.nc.ChanSubscribe("_INBOX.beside", answers)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		msg := r.msg("pop.beside", `{"wait":"3s"}`)
		msg.Reply = "_INBOX.beside"
		r.send(t, msg)
		for i := range 2 { // one for each, whichever comes first
			r.push(t, fmt.Sprintf(`{"id":"beside-%d","topic":"beside"}`, i))
		}
		first, second := w.next(t), receive(t, answers)
		if second.Header.Get("Dq-Id") == first.id() || second.Header.Get("Dq-Ack") == "" {
			t.Errorf("both got %s: %s", first.id(), second.Data)
		}
		r.finish(t, "beside-0")
		r.finish(t, "beside-1")
	})
	t.Cleanup(func() { r.emptied(t) })
}

func receive(t *testing.T, answers <-chan *nats.Msg) *nats.Msg {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case msg := <-answers:
		return msg
	case <-timer.C:
		t.Fatal("no answer to a pop")
		return nil
	}
}

// TestLifePopIsPrompt: a waiting pop is answered at once when a job becomes ready, whichever replica that is at.
// It measures times, so it runs before all tests that are parallel, beside its own rows only.
func TestLifePopIsPrompt(t *testing.T) { //nolint:tparallel // see above
	for name, replicas := range map[string]int{"one replica": 1, "three replicas": 3} {
		for when, waited := range map[string]time.Duration{"just begun": 30 * time.Millisecond, "waits for long": 2500 * time.Millisecond} {
			for how, fields := range map[string]string{"pushed": "", "due": `,"delay":0.05`} {
				t.Run(name+", "+when+", "+how, func(t *testing.T) {
					t.Parallel()
					// What one replica is not told of it finds at a tick.
					r := newRig(t, func(s *setup) { s.Tick = 10 * time.Second })
					for range replicas - 1 {
						r.start(t)
					}
					if replicas > 1 {
						pause(t, 2500*time.Millisecond) // they know of each other
					}
					var late []time.Duration
					const pops = 24
					var mu sync.Mutex
					var all sync.WaitGroup
					for i := range pops {
						topic := fmt.Sprintf("prompt.%d", i)
						inbox := nats.NewInbox()
						answers := make(chan *nats.Msg, 1)
						sub, err := r.nc.ChanSubscribe(inbox, answers)
						if err != nil {
							t.Fatal(err)
						}
						defer func() { _ = sub.Unsubscribe() }()
						msg := r.msg("pop."+topic, `{"wait":"20s"}`)
						msg.Reply = inbox
						r.send(t, msg)
						all.Go(func() {
							pause(t, waited+time.Duration(i)*20*time.Millisecond)
							msg := r.msg("push", fmt.Sprintf(`{"topic":%q%s}`, topic, fields))
							answer, err := r.nc.RequestMsg(msg, patience)
							if err != nil {
								t.Error(err)
								return
							}
							var p struct{ Data pushed }
							if err := json.Unmarshal(answer.Data, &p); err != nil {
								t.Error(err)
								return
							}
							stored := time.Now()
							if p.Data.DueAt.After(stored) {
								stored = p.Data.DueAt
							}
							select {
							case d := <-answers:
								if d.Header.Get("Dq-Id") != p.Data.ID {
									t.Errorf("answered %s %v", d.Data, d.Header)
								}
								mu.Lock()
								late = append(late, time.Since(stored))
								mu.Unlock()
							case <-time.After(patience):
								t.Errorf("the pop of %s is not answered", topic)
							}
						})
					}
					all.Wait()
					if slices.Sort(late); len(late) < pops {
						t.Fatalf("%d answers", len(late))
					}
					t.Logf("median %v, p90 %v, worst %v", late[pops/2], late[pops*9/10], late[pops-1])
					// Far more than it takes, as the machine may be busy: without a word from the others it is the tick.
					if late[pops/2] > 1500*time.Millisecond || late[pops*9/10] > 4*time.Second {
						t.Errorf("answered %v after the job was ready: all %v", late[pops/2], late)
					}
				})
			}
		}
	}
}

// TestLifePopMany: each of many waiting pops gets one job, none is handed out twice, and waiting costs Redis nothing.
func TestLifePopMany(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := newRig(t, func(s *setup) { s.redis = redis })
	r.start(t)
	const pops = 500
	var mu sync.Mutex
	got := map[string][]*nats.Msg{} // by inbox
	inbox := nats.NewInbox()
	sub, err := r.nc.Subscribe(inbox+".*", func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		got[msg.Subject] = append(got[msg.Subject], msg)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	idle := commandsASecond(t, redis)
	for i := range pops {
		msg := r.msg("pop.many", `{"wait":"50s"}`)
		msg.Reply = inbox + "." + strconv.Itoa(i)
		if err := r.nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	pause(t, 500*time.Millisecond)
	if waiting := commandsASecond(t, redis); waiting > idle+50 {
		t.Errorf("%v commands a second while pops wait, %v without", waiting, idle)
	}
	const batch = 250
	for part := range pops / batch {
		list := make([]string, batch)
		for i := range list {
			list[i] = fmt.Sprintf(`{"id":"job-%d","topic":"many","ttr":600}`, part*batch+i)
		}
		if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != 200 {
			t.Fatal(answer.raw)
		}
	}
	testenv.Eventually(t, patience, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == pops
	}, "each pop is answered")
	ids := map[string]bool{}
	mu.Lock()
	for _, answers := range got {
		for _, msg := range answers {
			if msg.Header.Get("Dq-Attempt") != "1" || ids[msg.Header.Get("Dq-Id")] {
				t.Errorf("answered %s %v", msg.Data, msg.Header)
			}
			ids[msg.Header.Get("Dq-Id")] = true
		}
		if len(answers) != 1 {
			t.Errorf("%d answers to one pop", len(answers))
		}
	}
	mu.Unlock()
	if len(ids) != pops {
		t.Errorf("%d jobs of %d", len(ids), pops)
	}
	if line := r.topic(t, "many"); line.Inflight != pops || line.Ready != 0 {
		t.Errorf("topic %+v", line)
	}
	said(t, r.admin(t, "purge", `{"topic":"many","state":"inflight"}`), fmt.Sprintf(`{"purged":%d}`, pops))
	r.emptied(t)
}

// commandsASecond measures how many commands Redis gets.
func commandsASecond(t *testing.T, redis *testenv.RedisServer) int {
	t.Helper()
	read := func() int {
		info, err := redis.Client().Info(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(info, "total_commands_processed:")
		n, _ := strconv.Atoi(after[:strings.IndexAny(after, "\r\n")])
		return n
	}
	before := read()
	pause(t, 2*time.Second)
	return (read() - before) / 2
}

// TestLifePopVanished: a job that went to a pop which nobody waits for any more comes again.
func TestLifePopVanished(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, leave := range map[string]func(nc *nats.Conn, sub *nats.Subscription) error{
		"connection": func(nc *nats.Conn, _ *nats.Subscription) error { nc.Close(); return nil },
		"inbox":      func(nc *nats.Conn, sub *nats.Subscription) error { return sub.Unsubscribe() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "vanished." + name
			nc := r.connect()
			defer nc.Close()
			sub, err := nc.SubscribeSync(nats.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.PublishRequest(r.subject("pop."+topic), sub.Subject, []byte(`{"wait":"50s"}`)); err != nil {
				t.Fatal(err)
			}
			if err := nc.FlushTimeout(patience); err != nil {
				t.Fatal(err)
			}
			pause(t, 100*time.Millisecond)
			if err := leave(nc, sub); err != nil {
				t.Fatal(err)
			}
			if name == "inbox" {
				if err := nc.FlushTimeout(patience); err != nil {
					t.Fatal(err)
				}
			}
			r.push(t, fmt.Sprintf(`{"id":%q,"topic":%q,"ttr":1,"body":5}`, topic, topic))
			d := r.popped(t, topic, `{"wait":20}`)
			if d.id() != topic || d.attempt() > 2 {
				t.Errorf("delivered %v", d.Header)
			}
			d.finish(t)
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// TestLifePopWindow: popped jobs are not counted in the window of the subscribers, nor bounded by it.
func TestLifePopWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 1 })
	for i := range 6 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":600}`, i))
	}
	seen := map[string]bool{}
	for range 3 {
		seen[r.popped(t, "t", `{"wait":5}`).id()] = true
	}
	w := r.work(t, "t")
	seen[w.next(t).id()] = true
	for range 2 { // the window is full, pops go on
		seen[r.popped(t, "t", `{"wait":5}`).id()] = true
	}
	r.none(t, "t", "", "no job at present")
	if len(seen) != 6 || w.count() != 1 {
		t.Errorf("popped %v, %d at the subscriber", seen, w.count())
	}
	for id := range seen {
		r.finish(t, id)
	}
	r.emptied(t)
}

// TestLifePopPaused: a pop on a paused topic says so, one that waits gets its job at the resume.
func TestLifePopPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring(t, "p", "ready", "")
	for _, payload := range []string{"", `{"wait":5}`} {
		r.none(t, "p", payload, "topic is paused")
	}
	r.admin(t, "resume", `{"topic":"p"}`)
	r.popped(t, "p", `{"wait":5}`).is(t, "p", 1).finish(t)

	answers := make(chan *nats.Msg, 1)
	sub, err := r.nc.ChanSubscribe("_INBOX.paused", answers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	msg := r.msg("pop.q", `{"wait":"20s"}`)
	msg.Reply = "_INBOX.paused"
	r.send(t, msg)
	pause(t, 100*time.Millisecond)
	r.bring(t, "q", "ready", "")
	pause(t, 500*time.Millisecond)
	if len(answers) > 0 {
		t.Fatalf("a pop that waited gets %s of a paused topic", (<-answers).Data)
	}
	r.admin(t, "resume", `{"topic":"q"}`)
	if d := receive(t, answers); d.Header.Get("Dq-Id") != "q" {
		t.Errorf("answered %s", d.Data)
	}
	r.finish(t, "q")
	r.emptied(t)
}

// TestLifePopTTRZero: a job without a TTR is gone with its pop, and no pop gets it shortly before its end.
func TestLifePopTTRZero(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"a","topic":"t","ttr":0}`)
	r.none(t, "t", `{"wait":"60ms"}`, "no job at present")
	d := r.popped(t, "t", `{"wait":5}`).is(t, "a", 1)
	testenv.Eventually(t, patience, func() bool { return r.admin(t, "get", `{"id":"a"}`).Code == 404 }, "the job is gone")
	refused(t, d.say(t, "-NAK"), 404)
	if n := finished(t, d.say(t, "+ACK")); n != 0 {
		t.Errorf("the ack finished %d", n)
	}
	r.push(t, `{"id":"a","topic":"t","ttr":0}`)
	r.popped(t, "t", `{"wait":5}`).is(t, "a", 1)
	r.emptied(t)
}

// TestLifePopShutdown: waiting pops are answered when their replica leaves.
func TestLifePopShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answers := make(chan *nats.Msg, 1)
	sub, err := r.nc.ChanSubscribe("_INBOX.leaving", answers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	msg := r.msg("pop.t", `{"wait":"50s"}`)
	msg.Reply = "_INBOX.leaving"
	r.send(t, msg)
	pause(t, 100*time.Millisecond)
	began := time.Now()
	if err := r.main.stop(t); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("the end takes %v (%v)", time.Since(began), err)
	}
	if e := envelopeOf(t, receive(t, answers)); e.Code != 404 && e.Code != 503 {
		t.Errorf("answered %s", e.raw)
	}
}
