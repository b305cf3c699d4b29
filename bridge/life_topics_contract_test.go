package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLifePause: a pause holds on every replica within a second, and stops deliveries only.
func TestLifePause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	second := r.start(t)
	w := r.watch(t, "p")
	free := r.watch(t, "free")
	for i := range 6 {
		r.push(t, fmt.Sprintf(`{"id":"out-%d","topic":"p","ttr":10}`, i))
	}
	out := map[string]*delivery{}
	for _, d := range w.await(t, 6) {
		out[d.id()] = d
	}
	said(t, r.admin(t, "pause", `{"topic":"p"}`), `{"topic":"p","paused":true}`)
	said(t, r.admin(t, "pause", `{"topic":"p"}`), `{"topic":"p","paused":true}`)
	pause(t, time.Second)
	// Acks and verbs go on.
	out["out-0"].finish(t)
	out["out-1"].settle(t, "+WPI")
	if s := out["out-2"].settle(t, "-NAK"); s.State != "ready" {
		t.Errorf("released: %+v", s)
	}
	out["out-3"].settle(t, "+TERM")
	const jobs = 40
	for i := range jobs { // taken by either replica
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"p","delay":%v,"ttr":600}`, i, float64(i%2)/5))
	}
	r.push(t, `{"id":"late","topic":"p","delay":600}`)
	must[stateReply](t, r, "run", `{"id":"late"}`)
	// Promotion and TTRs go on: all but those are ready in the end.
	testenv.Eventually(t, patience, func() bool {
		line := r.topic(t, "p")
		return line.Ready == jobs+1+4 && line.Delayed == 0 && line.Inflight == 0 && line.Dead == 1 && line.Paused
	}, "all is ready")
	if n := w.count(); n != 6 {
		t.Errorf("%d deliveries while paused: %v", n-6, w.all()[6].Header)
	}
	if job := r.look(t, "late"); job.State != "ready" {
		t.Errorf("run while paused: %+v", job)
	}
	for range 6 { // at either replica
		r.none(t, "p", `{"wait":1}`, "topic is paused")
	}
	r.push(t, `{"id":"free","topic":"free"}`)
	free.next(t).is(t, "free", 1).finish(t)
	// It survives a restart of one and of all.
	if err := second.stop(t); err != nil {
		t.Fatal(err)
	}
	if err := r.main.stop(t); err != nil {
		t.Fatal(err)
	}
	starting := time.Now()
	r.start(t)
	r.start(t)
	for range 4 {
		r.none(t, "p", "", "topic is paused")
	}
	pause(t, 700*time.Millisecond)
	if out := w.all(); len(out) > 6 {
		t.Errorf("%d deliveries of a paused topic, from %v after the start of a new bridge on", len(out)-6, out[6].at.Sub(starting))
	}
	said(t, r.admin(t, "resume", `{"topic":"p"}`), `{"topic":"p","paused":false}`)
	began := time.Now()
	w.await(t, 6+jobs+1+4)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("all were delivered %v after the resume", took)
	}
	said(t, r.admin(t, "resume", `{"topic":"p"}`), `{"topic":"p","paused":false}`)
	for i := range jobs {
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	for i := range 6 {
		r.finish(t, fmt.Sprintf("out-%d", i))
	}
	r.finish(t, "late")
	for verb := range map[string]bool{"pause": true, "resume": true} {
		for payload, names := range map[string]string{``: "topic", `{"topic":"a.*"}`: "topic", `{"topic":"a","why":1}`: "why", `{"topic":5}`: "topic"} {
			refused(t, r.admin(t, verb, payload), 400, names)
		}
	}
	r.emptied(t)
}

// TestLifePauseHolds: after a second no replica delivers, however fast jobs come; and within one all go on.
func TestLifePauseHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	r.start(t)
	w := r.handle(t, "p", func(d *delivery) { _ = d.Ack() })
	for round := range 3 {
		push := func(n int) {
			for i := range n {
				if err := r.nc.PublishMsg(r.msg("push", fmt.Sprintf(`{"topic":"p","body":"%d-%d"}`, round, i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		push(100)
		r.admin(t, "pause", `{"topic":"p"}`)
		push(100)
		pause(t, time.Second)
		n := w.count()
		push(100)
		pause(t, 400*time.Millisecond)
		if now := w.count(); now != n {
			t.Errorf("%d deliveries more than a second after the pause", now-n)
		}
		r.admin(t, "resume", `{"topic":"p"}`)
		w.await(t, 300*(round+1))
	}
	r.emptied(t)
}

// TestLifePauseSurvivesRestart: a bridge that starts delivers nothing of a topic that was paused before, to nobody.
func TestLifePauseSurvivesRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const topics, jobs = 10, 20
	for i := range topics {
		r.admin(t, "pause", fmt.Sprintf(`{"topic":"p.%d"}`, i))
		for range jobs {
			r.push(t, fmt.Sprintf(`{"topic":"p.%d"}`, i))
		}
	}
	w := r.watch(t, "p.*")
	second := r.start(t)
	first := r.main
	for range 6 {
		for _, b := range []*replica{first, second} {
			if err := b.stop(t); err != nil {
				t.Fatal(err)
			}
		}
		first, second = r.start(t), r.start(t)
		// Who asks at once is told of the pause, too.
		for i := range topics {
			if answer := r.pop(t, fmt.Sprintf("p.%d", i), ""); !strings.Contains(string(answer.Data), "topic is paused") {
				t.Errorf("a pop right after the start gets %s %v", answer.Data, answer.Header["Dq-Id"])
			}
		}
		pause(t, 300*time.Millisecond)
	}
	if n := w.count(); n > 0 {
		t.Errorf("%d deliveries of paused topics after restarts", n)
	}
}

// TestLifeTopics: the figures of topics, by pattern and by pages.
func TestLifeTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var names []string
	for i := range 60 {
		name := fmt.Sprintf("mail.%c.%d", 'a'+i%3, i)
		names = append(names, name)
		r.push(t, fmt.Sprintf(`{"topic":%q,"delay":600}`, name))
		r.push(t, fmt.Sprintf(`{"topic":%q,"delay":600}`, name))
	}
	r.push(t, `{"topic":"mail","delay":600}`)
	r.push(t, `{"topic":"other","delay":600}`)
	names = append(names, "mail", "other")
	slices.Sort(names)
	for pattern, matched := range map[string]func(string) bool{
		"":           func(string) bool { return true },
		">":          func(string) bool { return true },
		"mail":       func(n string) bool { return n == "mail" },
		"*":          func(n string) bool { return !strings.Contains(n, ".") },
		"mail.>":     func(n string) bool { return strings.HasPrefix(n, "mail.") },
		"mail.*":     func(string) bool { return false },
		"mail.b.*":   func(n string) bool { return strings.HasPrefix(n, "mail.b.") },
		"*.b.>":      func(n string) bool { return strings.HasPrefix(n, "mail.b.") },
		"mail.*.4":   func(n string) bool { return strings.HasSuffix(n, ".4") },
		"*.*.*":      func(n string) bool { return strings.Count(n, ".") == 2 },
		"other.>":    func(string) bool { return false },
		"mail.b.4.>": func(string) bool { return false },
	} {
		for _, limit := range []int{1, 7, 1000} {
			var want, have []string
			for _, name := range names {
				if matched(name) {
					want = append(want, name)
				}
			}
			for cursor, n := "", 0; n < 1000; n++ {
				page := must[topicPage](t, r, "topics", fmt.Sprintf(`{"match":%q,"limit":%d,"cursor":%q}`, pattern, limit, cursor))
				for _, line := range page.Topics {
					have = append(have, line.Topic)
					if n := 1 + strings.Count(line.Topic, ".")/2; line.Delayed != n || line.Ready+line.Inflight+line.Dead != 0 || line.Paused || line.Oldest != nil || line.Listening != nil {
						t.Errorf("topic %+v", line)
					}
				}
				if cursor = page.Cursor; cursor == "" {
					break
				}
			}
			if slices.Sort(have); !slices.Equal(have, want) {
				t.Errorf("match %q, limit %d: %q instead of %q", pattern, limit, have, want)
			}
		}
	}
	for payload, names := range map[string]string{
		`{"limit":0}`: "limit is 0", `{"limit":1001}`: "1 to 1000", `{"limit":"1"}`: "limit", `{"match":"a..b"}`: "match", `{"match":">.a"}`: "match",
		`{"match":"a*"}`: "match", `{"match":5}`: "match", `{"cursor":"!"}`: "cursor", `{"cursor":5}`: "cursor", `{"topic":"t"}`: "topic",
	} {
		refused(t, r.admin(t, "topics", payload), 400, names)
	}
}

// TestLifeTopicFigures: what is told of a topic follows what happens to it.
func TestLifeTopicFigures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	listening := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() bool {
			line := r.topic(t, "t")
			return want == "null" && line.Listening == nil || line.Listening != nil && strconv.FormatBool(*line.Listening) == want
		}, "listening is "+want)
	}
	r.push(t, `{"id":"later","topic":"t","delay":600}`)
	answer := r.admin(t, "topics", `{"match":"t"}`)
	said(t, answer, `{"topics":[{"topic":"t","delayed":1,"ready":0,"inflight":0,"dead":0,"listening":null,"paused":false,"oldest_ready_s":null}],"cursor":""}`)
	began := time.Now()
	r.push(t, `{"id":"a","topic":"t"}`)
	listening("false")
	pause(t, 700*time.Millisecond)
	r.push(t, `{"id":"b","topic":"t"}`)
	oldest := r.topic(t, "t").Oldest
	if age := time.Since(began).Seconds(); oldest == nil || *oldest < 0.6 || *oldest > age+0.05 {
		t.Errorf("the oldest ready job is told to be %v old, it is %v", ptrFloat(oldest), age)
	}
	w := r.work(t, "t")
	w.await(t, 2)
	listening("true")
	testenv.Eventually(t, patience, func() bool { return r.topic(t, "t").Inflight == 2 }, "both are in flight")
	if line := r.topic(t, "t"); line.Ready != 0 || line.Delayed != 1 || line.Oldest != nil {
		t.Errorf("topic %+v", line)
	}
	r.ask(t, r.msg("bury", "a"))
	r.admin(t, "pause", `{"topic":"t"}`)
	if line := r.topic(t, "t"); line.Inflight != 1 || line.Dead != 1 || !line.Paused {
		t.Errorf("topic %+v", line)
	}
	r.admin(t, "resume", `{"topic":"t"}`)
	w.leave(t)
	r.ask(t, r.msg("release", "b"))
	listening("false")
	for _, id := range []string{"a", "b", "later"} {
		r.finish(t, id)
	}
	if page := must[topicPage](t, r, "topics", ""); page.Topics == nil || len(page.Topics) > 0 {
		t.Errorf("topics without jobs: %+v", page)
	}
	r.emptied(t)
}

func ptrFloat(p *float64) float64 {
	if p == nil {
		return -1
	}
	return *p
}

type statsData struct {
	Delayed, Ready, Inflight, Dead, Topics int
	Due                                    map[string]int
	Replicas                               []struct {
		ID, Host, Version string
		StartedAt         time.Time `json:"started_at"`
	}
	Redis map[string]any
}

// TestLifeStats: the shape of the statistics, and what they count.
func TestLifeStats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	started := time.Now().Add(-time.Minute)
	second := r.start(t)
	n := 0
	for seconds, jobs := range map[string]int{
		"20": 2, "30": 1, "120": 1, "240": 2, "400": 3, "3000": 1, "4000": 4, "80000": 1, "90000": 5, "31536000": 1,
	} {
		for range jobs {
			n++
			r.push(t, fmt.Sprintf(`{"topic":"t.%d","delay":%s}`, n%4, seconds))
		}
	}
	r.bring(t, "ready", "ready", "")
	r.bring(t, "inflight", "inflight", "")
	r.bring(t, "dead", "dead", "")
	r.replicas(t, 2)
	var answer reply
	testenv.Eventually(t, patience, func() bool { // a beat can be late on a busy machine
		answer = r.admin(t, "stats", "{}")
		return len(decoded[statsData](t, answer).Replicas) == 2
	}, "both replicas are told")
	raw := decoded[map[string]json.RawMessage](t, answer)
	if have := slices.Sorted(maps.Keys(raw)); strings.Join(have, " ") != "dead delayed due inflight ready redis replicas topics" {
		t.Errorf("fields %q", have)
	}
	s := decoded[statsData](t, answer)
	if s.Delayed != n || s.Ready != 1 || s.Inflight != 1 || s.Dead != 1 || s.Topics != 7 {
		t.Errorf("counted %+v of %d", s, n)
	}
	if want := map[string]int{"1m": 3, "5m": 3, "1h": 4, "1d": 5, "later": 6}; !maps.Equal(s.Due, want) {
		t.Errorf("due %v instead of %v", s.Due, want)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, replica := range s.Replicas {
		if replica.ID == "" || replica.Host != host || replica.Version != "v1.2.3" || replica.StartedAt.Before(started) || replica.StartedAt.After(time.Now()) {
			t.Errorf("replica %+v", replica)
		}
	}
	if s.Replicas[0].ID == s.Replicas[1].ID {
		t.Errorf("replicas %+v", s.Replicas)
	}
	if have := strings.Join(slices.Sorted(maps.Keys(s.Redis)), " "); have != "aof_enabled connected_replicas maxmemory maxmemory_policy used_memory version" {
		t.Errorf("redis has %q", have)
	}
	if version, _ := s.Redis["version"].(string); version == "" || s.Redis["maxmemory_policy"] == "" || s.Redis["used_memory"] == 0.0 {
		t.Errorf("redis %v", s.Redis)
	}
	if _, is := s.Redis["aof_enabled"].(bool); !is {
		t.Errorf("redis %v", s.Redis)
	}
	if err := second.stop(t); err != nil {
		t.Fatal(err)
	}
	r.replicas(t, 1)
}

// replicas waits until every replica tells that there are so many: each knows it from its last beat.
func (r *rig) replicas(t *testing.T, n int) {
	t.Helper()
	testenv.Eventually(t, patience, func() bool {
		for range 10 {
			if len(must[statsData](t, r, "stats", "").Replicas) != n {
				return false
			}
		}
		return true
	}, fmt.Sprintf("%d replicas are told", n))
}

// TestLifeStorm does all that there is at random, at two replicas, and then holds the counters against what is stored.
func TestLifeStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 20 })
	r.start(t)
	const ids, topics, steps = 150, 5, 6000
	topicOf := func(id int) string { return fmt.Sprintf("storm.%d", id%topics) }
	handle := func(d *delivery) {
		verbs := []string{"+ACK", "-NAK", `-NAK {"delay": 200000000}`, "+WPI", "+TERM", "+TERM x", "", "no verb"}
		if n := rand.IntN(len(verbs) + 3); n < len(verbs) {
			_ = d.Respond([]byte(verbs[n]))
		}
	}
	w := r.join(t, r.nc, &worker{handle: handle}, "storm.*", "g")
	inbox := nats.NewInbox()
	popped, err := r.nc.Subscribe(inbox, func(msg *nats.Msg) {
		if msg.Header.Get("Dq-Ack") != "" {
			handle(&delivery{Msg: msg})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = popped.Unsubscribe() }()
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	t.Logf("seed %d", seed)
	states := []string{"delayed", "ready", "inflight", "dead"}
	for step := range steps {
		n := random.IntN(ids)
		id, topic := fmt.Sprintf("job-%d", n), topicOf(n)
		var tail, payload string
		switch action := random.IntN(100); {
		case action < 45:
			duplicate := []string{"keep", "replace"}[random.IntN(2)]
			fields := []string{"", `,"expires":0.2`, `,"max_attempts":2`, `,"backoff":[0.1,0]`, `,"ttr":0`}[random.IntN(5)]
			if fields != `,"ttr":0` {
				fields += fmt.Sprintf(`,"ttr":%v`, []float64{0.2, 0.5, 60}[random.IntN(3)])
			}
			body := strings.Repeat("b", []int{1, 50, 3000}[random.IntN(3)])
			tail, payload = "push", fmt.Sprintf(`{"id":%q,"topic":%q,"delay":%v,"on_duplicate":%q,"body":%q%s}`,
				id, topic, []float64{0, 0, 0.1, 0.4, 60}[random.IntN(5)], duplicate, body, fields)
		case action < 65:
			tail, payload = []string{"finish", "touch", "release", "bury"}[random.IntN(4)], id
		case action < 68:
			tail, payload = "bury", fmt.Sprintf(`["job-%d","job-%d","job-%d"]`, n, (n+7)%ids, (n+31)%ids)
		case action < 74:
			tail, payload = "admin."+[]string{"cancel", "run", "kick"}[random.IntN(3)], fmt.Sprintf(`{"id":%q}`, id)
		case action < 80:
			tail, payload = "admin.reschedule", fmt.Sprintf(`{"id":%q,"delay":%v}`, id, []float64{0, 0.2, 30}[random.IntN(3)])
		case action < 83:
			tail, payload = "admin.kick", fmt.Sprintf(`{"topic":%q,"limit":5}`, topic)
		case action < 84:
			tail, payload = "admin.purge", fmt.Sprintf(`{"topic":%q,"state":%q}`, topic, states[random.IntN(4)])
		case action < 86:
			tail, payload = "admin."+[]string{"pause", "resume", "resume"}[random.IntN(3)], fmt.Sprintf(`{"topic":%q}`, topic)
		case action < 96:
			tail, payload = "pop."+topic, []string{"", `{"wait":0.5}`, `{"wait":"50ms"}`}[random.IntN(3)]
		default:
			tail, payload = "admin.list", fmt.Sprintf(`{"topic":%q,"state":%q}`, topic, states[random.IntN(4)])
		}
		msg := r.msg(tail, payload)
		msg.Reply = inbox
		if err := r.nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		if step%50 == 0 {
			pause(t, 20*time.Millisecond)
		}
		if step%1500 == 700 {
			w.leave(t)
		}
		if step%1500 == 900 {
			w.subscribe(t, r.nc, r.subject("ready.storm.*"), "g")
		}
	}
	w.leave(t)
	for i := range topics {
		r.admin(t, "pause", fmt.Sprintf(`{"topic":"storm.%d"}`, i))
	}
	pause(t, 3*time.Second) // pauses hold, short TTRs and delays are over, no pop waits any more
	r.counted(t, topics)
	// All goes away by purges alone.
	for i := range topics {
		for _, state := range states {
			r.admin(t, "purge", fmt.Sprintf(`{"topic":"storm.%d","state":%q}`, i, state))
		}
		r.admin(t, "resume", fmt.Sprintf(`{"topic":"storm.%d"}`, i))
	}
	if s := must[statsData](t, r, "stats", ""); s.Delayed+s.Ready+s.Inflight+s.Dead+s.Topics != 0 {
		t.Errorf("after the purges: %+v", s)
	}
	r.emptied(t)
	// Everything works as ever: no window has leaked.
	last := r.work(t, "storm.*")
	for i := range 20 * topics {
		r.push(t, fmt.Sprintf(`{"id":"last-%d","topic":"storm.%d"}`, i, i%topics))
	}
	last.await(t, 20*topics)
}

// counted holds the counters against a full count of what is stored.
func (r *rig) counted(t *testing.T, topics int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	client, err := delay.Dial(delay.RedisOptions{URL: r.redis.URL(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	store := delay.NewStore(client, delay.StoreOptions{Prefix: r.Prefix, Buckets: r.buckets, MaxDelay: r.MaxDelay})
	defer func() { _ = store.Close() }()
	if err = store.Open(ctx); err != nil {
		t.Fatal(err)
	}
	jobs, err := delay.NewChecker(store, false, func(f delay.Finding) {
		if f.Kind != delay.FoundStale {
			t.Errorf("found %+v", f)
		}
	}).Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := must[statsData](t, r, "stats", "")
	var sum, listed statsData
	for i := range topics {
		name := fmt.Sprintf("storm.%d", i)
		line := r.topic(t, name)
		sum.Delayed, sum.Ready, sum.Inflight, sum.Dead = sum.Delayed+line.Delayed, sum.Ready+line.Ready, sum.Inflight+line.Inflight, sum.Dead+line.Dead
		listed.Delayed += len(r.pages(t, name, "delayed", 1000))
		listed.Ready += len(r.pages(t, name, "ready", 1000))
		listed.Inflight += len(r.pages(t, name, "inflight", 1000))
		listed.Dead += len(r.pages(t, name, "dead", 1000))
	}
	for what, other := range map[string]statsData{"topics": sum, "lists": listed} {
		if other.Delayed != s.Delayed || other.Ready != s.Ready || other.Inflight != s.Inflight || other.Dead != s.Dead {
			t.Errorf("%s say %+v, the statistics %+v", what, other, s)
		}
	}
	if s.Delayed+s.Ready+s.Inflight+s.Dead != jobs || jobs == 0 {
		t.Errorf("%d jobs are stored, the statistics say %+v", jobs, s)
	}
	t.Logf("%d jobs stored: %+v", jobs, s)
}
