package bridge_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// users gives a NATS server users with permissions; the bridge's own may do all but publish on denied.
func users(prefix string, denied ...string) testenv.NATSOption {
	allow := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	none := &server.SubjectPermission{Deny: []string{">"}}
	bridge := &server.Permissions{Publish: &server.SubjectPermission{Deny: denied}}
	return func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "secret-b", Permissions: bridge},
			{Username: "all", Password: "secret-a"},
			{Username: "pusher", Password: "secret-p", Permissions: &server.Permissions{
				Publish: allow(prefix + ".push.mail"), Subscribe: allow("_INBOX_push.>"),
			}},
			{Username: "worker", Password: "secret-w", Permissions: &server.Permissions{
				Publish: none, Subscribe: allow(prefix+".ready.mail", prefix+".ready.mail workers", "_INBOX_mail.>"),
				Response: &server.ResponsePermission{MaxMsgs: -1, Expires: time.Minute},
			}},
		}
	}
}

// guarded starts a rig whose NATS asks who it is.
func guarded(t *testing.T, denied ...string) *rig {
	t.Helper()
	prefix := testenv.Prefix(t)
	for i := range denied {
		denied[i] = prefix + denied[i]
	}
	server := testenv.NATS(t, users(prefix, denied...))
	return newRig(t, func(s *setup) {
		s.Prefix, s.nats = prefix, server
		s.natsURL = "nats://bridge:secret-b@" + server.Addr()
		s.client = []nats.Option{nats.UserInfo("all", "secret-a")}
	})
}

// TestPermissions: the roles of section 1 need no more than it says.
func TestPermissions(t *testing.T) {
	t.Parallel()
	r := guarded(t)
	dead := r.events(t, "dead.mail")
	var faults logLines
	onError := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { _, _ = fmt.Fprintln(&faults, err) })
	pusher := r.connect(nats.UserInfo("pusher", "secret-p"), nats.CustomInboxPrefix("_INBOX_push"), onError)
	working := r.connect(nats.UserInfo("worker", "secret-w"), nats.CustomInboxPrefix("_INBOX_mail"), onError)
	w := r.member(t, working, "mail", "workers")
	r.eachVerb(t, w, pushBy(t, pusher, r.subject("push.mail")))
	r.finish(t, dead.next(t).id())
	r.emptied(t)
	pusher.Close()
	working.Close()
	if faults.String() != "" {
		t.Errorf("NATS refused:\n%s", &faults)
	}
}

// TestReadySubjectDenied: a topic that the bridge may not publish on is as one without listeners, and is told of.
func TestReadySubjectDenied(t *testing.T) {
	t.Parallel()
	r := guarded(t, ".ready.secret", ".ready.secret.>")
	silent, w := r.work(t, "secret"), r.work(t, "open")
	r.push(t, `{"id":"a","topic":"secret","max_attempts":1}`)
	r.push(t, `{"id":"b","topic":"secret","ttr":0}`)
	r.tried(t)
	for i := range 50 {
		id := fmt.Sprintf("job-%d", i)
		r.push(t, `{"id":"`+id+`","topic":"open"}`)
		r.push(t, `{"id":"s-`+id+`","topic":"secret.x","ttr":0}`)
		w.next(t).is(t, id, 1).finish(t)
	}
	if d := silent.all(); len(d) > 0 {
		t.Errorf("delivered %v", d[0])
	}
	for _, id := range []string{"a", "b"} {
		if p := r.push(t, `{"id":"`+id+`","topic":"secret"}`); !p.Duplicate || p.State == "dead" {
			t.Errorf("job %s: %+v", id, p)
		}
	}
	if r.main.metric(t, "dqbridge_errors_total") == 0 {
		t.Error("no error in /metrics")
	}
	var told bool
	for _, line := range r.main.log.lines(`.ready.secret`) {
		var entry struct{ Level string }
		told = told || json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "error"
	}
	if !told {
		t.Error("no error in the log")
	}
	if n := len(r.main.log.lines(`"level":"error"`)); n > 100 {
		t.Errorf("%d errors in the log", n)
	}
	if status, body := r.main.get(t, "/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	for i := range 50 {
		r.finish(t, fmt.Sprintf("s-job-%d", i))
	}
	r.finish(t, "a")
	r.finish(t, "b")
	r.emptied(t)
}
