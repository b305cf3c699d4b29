package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// live is a real bridge with a real Redis behind it.
type live struct {
	*testing.T

	server *testenv.NATSServer
	prefix string
}

func newLive(t *testing.T) *live {
	t.Helper()
	l := &live{T: t, server: testenv.NATS(t), prefix: testenv.Prefix(t)}
	client, err := delay.Dial(delay.RedisOptions{URL: testenv.SharedRedis(t).URL(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	link, err := bridge.Connect(bridge.LinkOptions{URL: l.server.URL(), Log: zerolog.Nop(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	const longest = 1000 * time.Hour
	store := delay.NewStore(client, delay.StoreOptions{Prefix: l.prefix, Buckets: 8, MaxDelay: longest})
	options := bridge.Options{
		Prefix: l.prefix, Version: "v1.2.3", Tick: time.Second, MaxDelay: longest, MaxBody: 1_000_000,
		DefaultTTR: time.Minute, MaxInflight: 1000, ShutdownTimeout: time.Second, Now: time.Now,
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- bridge.New(link, store, options, zerolog.Nop()).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the bridge ends with %v", err)
		}
	})
	testenv.Eventually(t, 15*time.Second, func() bool {
		var out screen
		return l.call().run(t.Context(), &out, "stats") == nil && strings.Contains(out.String(), "v1.2.3")
	}, "the bridge answers")
	return l
}

func (l *live) call() call {
	return call{vars: map[string]string{"DQ_NATS_URL": l.server.URL(), "DQ_PREFIX": l.prefix}}
}

// run runs a command that has to go well, and gives what it printed on both.
func (l *live) run(args ...string) string {
	l.Helper()
	return l.fed("", args...)
}

func (l *live) fed(stdin string, args ...string) string {
	l.Helper()
	var out screen
	c := l.call()
	c.stdin = stdin
	if err := c.run(l.Context(), &out, args...); err != nil {
		l.Fatalf("%q: %v\n%s", args, err, out.String())
	}
	return out.String()
}

// refused runs a command that has to fail, but not for how it was called.
func (l *live) refused(text string, args ...string) {
	l.Helper()
	var out screen
	err := l.call().run(l.Context(), &out, args...)
	if err == nil || IsUsage(err) || !strings.Contains(err.Error(), text) {
		l.Errorf("%q: error %v, want %q", args, err, text)
	}
}

func (l *live) wants(text string, args ...string) {
	l.Helper()
	if out := l.run(args...); !strings.Contains(out, text) {
		l.Errorf("%q lacks %q, printed\n%s", args, text, out)
	}
}

// Every odd but allowed id and topic goes through every command.
func TestOddNamesLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	for id, topic := range map[string]string{
		"a b":                    "plain.two",
		"-dash":                  "-dash",
		"--json":                 "--",
		`it's "quoted" \ $HOME`:  `it's"quoted"\$HOME`,
		"[1]":                    "[1]",
		`{"id":"x"}`:             `{"id":"x"}`,
		`"x"`:                    "`x`",
		"日本 ü é 👍":               "日本.ü.👍",
		"+ACK":                   "$SYS",
		strings.Repeat("ü", 128): strings.Repeat("t", 200),
		"%s%d":                   "%s%d",
		"null":                   "null",
		"<&>":                    "<&",
	} {
		l.life(id, topic)
	}
}

// life leads one job through all commands.
func (l *live) life(id, topic string) {
	l.Helper()
	l.wants("pushed "+id+",", "push", "--delay", "1h", "--id="+id, "--", topic, `{"n": 1}`)
	l.wants("already stored: "+id, "push", "--id="+id, "--", topic)
	l.wants(id+"  ", "list", "--", topic)
	l.wants(topic+"  ", "topics", "--", topic)
	l.wants("id            "+id+"\ntopic         "+topic+"\nstate         delayed\n", "get", "--", id)
	l.wants(id+" is delayed, due ", "reschedule", "--", id, "10m")
	l.wants(id+" is delayed, due ", "reschedule", "--at", l.later(), "--", id)
	l.wants(id+" is ready, due now", "run", "--", id)
	l.wants(topic+" is paused", "pause", "--", topic)
	l.refused("404: topic is paused", "pop", "--", topic)
	l.wants(topic+" is delivered", "resume", "--", topic)
	var popped screen
	testenv.Eventually(l, 15*time.Second, func() bool { // a resume holds within a second
		return l.call().run(l.Context(), &popped, "pop", "--wait", "5s", "--", topic) == nil
	}, "the job is popped")
	if want := "{\"n\": 1}\n" + id + ", attempt 1 of topic " + topic + "\n"; !strings.HasPrefix(popped.String(), want) {
		l.Errorf("%s popped as\n%s", id, popped.String())
	}
	l.wants("touched "+id+", its TTR ends ", "touch", "--", id)
	l.wants("released "+id+", due ", "release", "--delay", "1h", "--", id)
	l.refused("409: id ", "touch", "--", id)
	l.wants("buried "+id, "bury", "--reason", "it's odd", "--", id)
	l.wants("buried: it's odd\n", "list", "--state", "dead", "--", topic)
	l.wants("kicked 1 job", "kick", "--", id)
	l.wants("buried "+id, "bury", "--", id)
	l.wants("kicked 1 job", "kick", "--topic="+topic)
	testenv.Eventually(l, 15*time.Second, func() bool { // a job that looks for a listener is not ready for that moment
		return l.run("purge", "--state", "ready", "--yes", "--", topic) == "removed 1 job\n"
	}, "the job is purged")
	l.wants(id+" was not there\n", "finish", "--", id)
	l.wants("pushed "+id+",", "push", "--delay", "1h", "--id="+id, "--", topic)
	l.wants("cancelled "+id+", it was delayed", "cancel", "--", id)
	l.refused("404: id ", "get", "--", id)
}

// later is a moment within the longest delay.
func (l *live) later() string { return time.Now().Add(100 * time.Hour).UTC().Format(time.RFC3339) }

func TestPopLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	const bytes = "\xff\x00 \n{"
	l.fed(bytes, "push", "raw", "-", "--raw", "--id", "r", "--ttr", "1h30m")
	var out, errs screen
	c := l.call()
	c.errs = &errs
	if err := c.run(t.Context(), &out, "pop", "raw", "--wait", "5s"); err != nil || out.String() != bytes {
		t.Errorf("error %v, printed %q", err, out.String())
	}
	if told := errs.String(); !strings.HasPrefix(told, "r, attempt 1 of topic raw\nack subject "+l.prefix+".ack.") ||
		!strings.HasSuffix(told, "\ncomes again in 1h30m unless it is finished: dqbridge finish r\n") {
		t.Errorf("told %q", told)
	}
	l.run("release", "r")
	var got struct {
		ID      string  `json:"id"`
		Attempt int     `json:"attempt"`
		TTR     float64 `json:"ttr"`
		Ack     string  `json:"ack"`
		Body    []byte  `json:"body_base64"`
	}
	text := l.run("pop", "raw", "--json", "--ack", "--wait", "5")
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.ID != "r" || got.Attempt != 2 || got.TTR != 5400 || got.Ack == "" ||
		string(got.Body) != bytes || strings.Count(text, "\n") != 1 {
		t.Errorf("error %v, printed %s", err, text)
	}
	l.refused("404: id r: no such job", "get", "r")
	l.refused("404: no job at present", "pop", "raw")

	l.run("push", "zero", `{"<a>": 1.0}`, "--ttr", "0", "-H", "x=1")
	l.wants("gone: its TTR is 0", "pop", "zero", "--wait", "5s")
	l.run("push", "zero", `{"<a>": 1.0}`, "--ttr", "0", "-H", "x=1")
	l.wants(`"headers":{"x":["1"]},"body":{"<a>":1.0}}`, "pop", "zero", "--wait", "5s", "--json")
}

func TestLongListLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	const jobs = 2500
	var ids []string
	nc := l.server.Connect()
	for at := 0; at < jobs; at += 1000 {
		var batch []string
		for i := at; i < min(at+1000, jobs); i++ {
			ids = append(ids, fmt.Sprintf("j%04d", i))
			batch = append(batch, fmt.Sprintf(`{"id":"j%04d","topic":"many","delay":%d}`, i, 3600+i))
		}
		reply, err := nc.Request(l.prefix+".push", []byte("["+strings.Join(batch, ",")+"]"), 15*time.Second)
		if err != nil || !strings.HasPrefix(string(reply.Data), `{"code":200,`) {
			t.Fatalf("push: %v", err)
		}
	}
	for _, args := range [][]string{{"list", "many", "--all"}, {"list", "many", "--state", "delayed", "--limit", "2600"}} {
		lines := strings.Split(l.run(args...), "\n")
		seen := map[string]bool{}
		for _, line := range lines[1:] {
			id, _, _ := strings.Cut(line, " ")
			seen[id] = true
		}
		if len(seen) != jobs+1 || !seen["j0000"] || !seen["j2499"] { // and the empty line at the end
			t.Errorf("%q: %d jobs", args, len(seen)-1)
		}
	}
	l.wants("more delayed jobs follow", "list", "many", "--limit", "10")
	l.wants("many      2500", "topics", "--all")
	if out := l.run(append([]string{"finish"}, ids[:2001]...)...); strings.Count(out, "finished j") != 2001 {
		t.Errorf("%d finished", strings.Count(out, "finished j"))
	}
	l.wants("removed 499 jobs", "purge", "many", "--state", "delayed", "--yes")
}

func TestStatsWatchLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	for _, terminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var out screen
		ended := make(chan error, 1)
		go func() {
			c := l.call()
			c.terminal = terminal
			ended <- c.run(ctx, &out, "stats", "--watch", "--interval", "10ms")
		}()
		testenv.Eventually(t, 15*time.Second, func() bool { return strings.Count(out.String(), "REPLICA") >= 3 }, "three of them")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if inPlace := strings.Count(out.String(), cursorHome) >= 3; inPlace != terminal {
			t.Errorf("terminal %v, printed %q", terminal, out.String())
		}
	}
}

func TestCompletionLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	for _, topic := range []string{"mail.eu", "mail.us", "other", "日本"} {
		l.run("push", topic, "--delay", "1h")
	}
	for want, args := range map[string][]string{
		"mail.eu\nmail.us\n:4\n":               {"list", "mail"},
		"日本\n:4\n":                             {"kick", "--topic", "日"},
		"delayed\nready\ninflight\ndead\n:4\n": {"purge", "x", "--state", ""},
		":4\n":                                 {"get", ""},
	} {
		var out screen
		if err := l.call().complete(t.Context(), &out, args...); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: error %v, offers\n%s", args, err, out.String())
		}
	}
	l.server.Shutdown()
	var out screen
	if err := l.call().complete(t.Context(), &out, "list", ""); err != nil || !strings.HasPrefix(out.String(), ":4\n") {
		t.Errorf("without a server: error %v, offers\n%s", err, out.String())
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	c := call{vars: map[string]string{"DQ_NATS_URL": server.URL()}, terminal: true}
	for _, args := range [][]string{
		{"pop", "a"},
		{"finish", "a"},
		{"touch", "a", "b"},
		{"release", "a"},
		{"bury", "a"},
		{"get", "a"},
		{"list", "a"},
		{"stats"},
		{"stats", "--watch"},
		{"topics"},
		{"cancel", "a"},
		{"run", "a"},
		{"reschedule", "a", "1"},
		{"kick", "a"},
		{"pause", "a"},
		{"resume", "a"},
		{"purge", "a", "--state", "dead"},
	} {
		var out screen
		err := c.run(t.Context(), &out, args...)
		if want := `no bridge answers under the prefix "dq" at (redacted): is it running?`; err == nil || err.Error() != want || out.String() != "" {
			t.Errorf("%q: error %v, printed %q", args, err, out.String())
		}
	}
}
