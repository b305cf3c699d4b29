package cli

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// watching starts a watch and ends it with the test.
func watching(t *testing.T, c call, args ...string) (*screen, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &screen{}, make(chan error, 1)
	go func() { ended <- c.run(ctx, out, append([]string{"watch"}, args...)...) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); t.Failed() {
			t.Logf("the watch ends with %v and printed:\n%s", err, out)
		}
	})
	testenv.Eventually(t, 10*time.Second, func() bool { return strings.Contains(out.String(), "watching ") }, "its first line")
	return out, stop
}

func TestWatchEvents(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	out, stop := watching(t, call{colour: true}, "--nats", server.URL())
	nc := server.Connect()
	send := func(subject, payload string) {
		msg := nats.NewMsg(subject)
		msg.Data = []byte(payload)
		msg.Header.Set("Dq-Reason", "buried: \x1b[2J")
		testenv.Eventually(t, 10*time.Second, func() bool { // its subscription may not have arrived yet
			nc.PublishMsg(msg)
			nc.Flush()
			return strings.Contains(out.String(), strings.TrimPrefix(subject, "dq.event."))
		}, subject)
	}
	send("dq.event.dead.mail", `{"id":"a"}`)
	send("dq.event.finished.mail", strings.Repeat("é", 200))
	send("dq.event.rejected", "\xff")
	for _, want := range []string{"\x1b[31mdead.mail", `{"id":"a"}`, `Dq-Reason=buried: \x1b[2J`, "é… (400 bytes)", "(1 bytes)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "\x1b[2J") {
		t.Error("a control sequence went through")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWatchWorks(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.NATS(t), testenv.Prefix(t)
	bridge := testenv.NewFakeBridge(t, server.Connect(), prefix, testenv.Faults{})
	out, stop := watching(t, call{}, "--nats", server.URL(), "--prefix", prefix, "--work", "mail")
	push := func(job map[string]any) {
		payload, _ := json.Marshal(job)
		if _, err := server.Connect().Request(prefix+".push", payload, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	push(map[string]any{"id": "a", "topic": "mail", "delay": "50ms", "ttr": "100ms", "body": map[string]int{"n": 1}})
	push(map[string]any{"id": "b", "topic": "other", "delay": "1h", "body": 2})
	testenv.Eventually(t, 10*time.Second, func() bool { return bridge.Jobs() == 1 }, "the job finished")
	testenv.Eventually(t, 10*time.Second, func() bool { return strings.Contains(out.String(), `{"n":1}`) }, "the job shown")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Contains(text, "  b  ") || !strings.Contains(text, " late") || strings.Contains(text, "\x1b") {
		t.Errorf("printed:\n%s", text)
	}
}

func TestWatchShowsFailedFinish(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	out, _ := watching(t, call{}, "--nats", server.URL(), "--work", "mail", "--timeout", "2s")
	nc := server.Connect()
	if _, err := nc.Subscribe("dq.ack.x", func(msg *nats.Msg) {
		msg.Respond([]byte(`{"code":409,"message":"an older job","data":null}`))
	}); err != nil {
		t.Fatal(err)
	}
	msg := &nats.Msg{Subject: "dq.ready.mail", Reply: "dq.ack.x", Data: []byte("raw body"), Header: nats.Header{
		"Dq-Id": {"a"}, "Dq-Topic": {"mail"}, "Dq-Attempt": {"2"}, "Dq-Due-At": {"2000-01-01T00:00:00.000Z"},
	}}
	testenv.Eventually(t, 10*time.Second, func() bool {
		nc.PublishMsg(msg)
		nc.Flush()
		return strings.Contains(out.String(), "raw body  not finished: 409: an older job")
	}, "the refusal")
	if !strings.Contains(out.String(), "attempt 2, ") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestWatchMayNotSubscribe(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t, denySubscribe)
	var out screen
	err := (call{}).run(t.Context(), &out, "watch", "--nats", server.URL())
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "permission") {
		t.Errorf("error %v", err)
	}
}

// denySubscribe lets nobody listen to events.
func denySubscribe(o *server.Options) {
	o.Users = []*server.User{{
		Username: "u", Password: "p",
		Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"dq.event.>"}}},
	}}
	o.NoAuthUser = "u"
}
