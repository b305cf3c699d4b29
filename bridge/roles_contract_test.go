package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const password = "s3cret" // of all roles

// configured starts a rig on a NATS with a configuration of docs/, as it is. The tests' own client may do everything.
func configured(t *testing.T, file string, options ...func(*setup)) *rig {
	t.Helper()
	for _, name := range []string{"BRIDGE", "OPERATOR", "MAIL", "MAIL_PUSHER", "MAIL_WORKER"} {
		t.Setenv(name+"_PASSWORD", password)
	}
	everybody := func(o *server.Options) {
		all := &server.User{Username: "all", Password: password}
		for _, user := range o.Users {
			if user.Username == "bridge" {
				all.Account = user.Account // nil where there are no accounts
			}
		}
		o.Users = append(o.Users, all)
	}
	return newRig(t, append([]func(*setup){func(s *setup) {
		s.nats = testenv.NATS(t, testenv.JetStream(), testenv.NATSConfig(t, "../docs/"+file), everybody)
		s.Prefix, s.redis = "dq", testenv.Redis(t) // the prefix of the file
		s.natsURL = "nats://bridge:" + password + "@" + s.nats.Addr()
		s.client = []nats.Option{nats.UserInfo("all", password)}
	}}, options...)...)
}

// role gives a client of a role, with the inbox of it.
func (r *rig) role(name string) *nats.Conn {
	return r.connect(nats.UserInfo(name, password), nats.CustomInboxPrefix("_INBOX_"+name),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// pushBy gives what pushes a job to a subject, where it must be taken.
func pushBy(t *testing.T, nc *nats.Conn, subject string) func(job string) {
	t.Helper()
	return func(job string) {
		t.Helper()
		got, err := nc.Request(subject, []byte(job), patience)
		if err != nil || !strings.HasPrefix(string(got.Data), `{"code":200,`) {
			t.Fatalf("push %s: %v %v", job, got, err)
		}
	}
}

// refusals are what NATS refused to a bridge.
func (b *replica) refusals() []string { return b.log.lines("ermissions") }

// TestRoles: the configuration in docs/ lets each role do its part, and the bridge all of its own.
func TestRoles(t *testing.T) { //nolint:paralleltest // the configuration reads passwords from the environment
	r := configured(t, "nats-server.conf")
	second := r.start(t)
	dead := r.events(t, "dead.mail")
	pusher, working, operator := r.role("mail_pusher"), r.role("mail_worker"), r.role("operator")
	seen, err := operator.SubscribeSync("dq.event.>")
	if err != nil {
		t.Fatal(err)
	}
	push := pushBy(t, pusher, "dq.push.mail")
	w := r.member(t, working, "mail", "workers")
	r.eachVerb(t, w, push)
	dead.next(t)
	w.leave(t)
	push(`{"id":"pulled","ttr":60}`)
	job, err := working.Request("dq.pop.mail", []byte(`{"wait":"10s"}`), 2*patience)
	if err != nil || job.Header.Get("Dq-Id") != "pulled" {
		t.Fatalf("pull: %v %v", job, err)
	}
	if err = errors.Join(job.InProgress(), job.AckSync(nats.AckWait(patience))); err != nil {
		t.Fatal(err)
	}
	for _, request := range [][2]string{{"stats", ""}, {"list", `{"state":"dead"}`}, {"kick", `{"id":"job-4"}`}, {"cancel", `{"id":"job-4"}`}} {
		var got *nats.Msg
		if got, err = operator.Request("dq.admin."+request[0], []byte(request[1]), patience); err != nil || !strings.HasPrefix(string(got.Data), `{"code":200,`) {
			t.Errorf("%s: %v %v", request[0], got, err)
		}
	}
	if _, err = operator.Request("$SRV.STATS.dqbridge", nil, patience); err != nil {
		t.Errorf("micro stats: %v", err)
	}
	if _, err = seen.NextMsg(patience); err != nil {
		t.Errorf("the operator sees no event: %v", err)
	}
	// A stream is found and waited for, a message that nobody waits for is announced, and one replica takes over from the other.
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OUT", Subjects: []string{"dq.ready.out"}}); err != nil {
		t.Fatal(err)
	}
	rejected := r.events(t, "rejected")
	r.send(t, r.msg("push", `nonsense`))
	rejected.next(t)
	r.push(t, `{"id":"out","topic":"out","ttr":0}`)
	if err = second.stop(t); err != nil {
		t.Error(err)
	}
	r.emptied(t)
	for i, b := range r.started {
		if lines := b.refusals(); len(lines) > 0 {
			t.Errorf("NATS refused to bridge %d:\n%s", i, strings.Join(lines, ""))
		}
	}
}

// eachVerb gives a worker a job for each verb, with touches before it; the last one is dead then.
func (r *rig) eachVerb(t *testing.T, w *worker, push func(job string)) {
	t.Helper()
	const touches = 5
	for i, verb := range []func(d *delivery) error{
		func(d *delivery) error { return d.Ack() },
		func(d *delivery) error { return d.AckSync(nats.AckWait(patience)) },
		func(d *delivery) error { return d.Nak() },
		func(d *delivery) error { return d.NakWithDelay(10 * time.Millisecond) },
		func(d *delivery) error { return d.Term() },
	} {
		id := fmt.Sprintf("job-%d", i)
		push(`{"id":"` + id + `","ttr":60}`)
		d := w.next(t).is(t, id, 1)
		for range touches {
			if err := d.InProgress(nats.AckWait(patience)); err != nil {
				t.Fatal(err)
			}
		}
		if err := verb(d); err != nil {
			t.Fatal(err)
		}
		if i == 2 || i == 3 {
			if err := w.next(t).is(t, id, 2).AckSync(nats.AckWait(patience)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRolesPushStream: the bridge of the configuration may use its stream, too.
func TestRolesPushStream(t *testing.T) { //nolint:paralleltest // as above
	r := configured(t, "nats-server.conf", func(s *setup) { s.PushStream = pushStream })
	w := r.work(t, "mail")
	for range 3 {
		got, err := r.role("mail_pusher").Request("dq.push.mail", []byte(`{"body":1}`), patience)
		if err != nil || !strings.HasPrefix(string(got.Data), `{"stream":"PUSHES"`) {
			t.Fatalf("push: %v %v", got, err)
		}
		w.next(t).finish(t)
	}
	r.emptied(t)
	if lines := r.main.refusals(); len(lines) > 0 {
		t.Errorf("NATS refused:\n%s", strings.Join(lines, ""))
	}
}

// TestRolesDoNoMore: what each role of the configuration in docs/ may not publish or subscribe, and what it may.
func TestRolesDoNoMore(t *testing.T) { //nolint:paralleltest // as above
	r := configured(t, "nats-server.conf")
	const ack = "dq.ack.0.abcdefgh.1.1.-job"
	for role, may := range map[string]struct{ publish, subscribe, notPublish, notSubscribe []string }{
		"mail_pusher": {
			publish: []string{"dq.push.mail"}, subscribe: []string{"_INBOX_mail_pusher.x"},
			notPublish:   []string{"dq.push", "dq.push.sms", "dq.push.mail.eu", "dq.ready.mail", "dq.pop.mail", "dq.finish", "dq.touch", "dq.release", "dq.bury", ack, "dq.admin.purge", "dq.event.rejected", "_INBOX_mail_worker.x", "$SRV.PING", "$JS.API.INFO"},
			notSubscribe: []string{"dq.ready.mail", "dq.push.mail", "dq.ack.>", "dq.event.>", "dq.pop.>", "_INBOX.>", "_INBOX_mail_worker.>", ">"},
		},
		"mail_worker": {
			publish: []string{"dq.pop.mail"}, subscribe: []string{"dq.ready.mail", "_INBOX_mail_worker.x"},
			notPublish:   []string{"dq.push", "dq.push.mail", "dq.ready.mail", "dq.pop.sms", "dq.pop", "dq.finish", "dq.touch", "dq.release", "dq.bury", ack, "dq.admin.get", "dq.event.dead.mail", "_INBOX.x", "$SRV.PING"},
			notSubscribe: []string{"dq.ready.sms", "dq.ready.>", "dq.ready.*", "dq.push.mail", "dq.ack.>", "dq.event.>", "dq.pop.mail", "_INBOX.>", "_INBOX_mail_pusher.>", "$SRV.>"},
		},
		"operator": {
			publish: []string{"dq.admin.stats", "$SRV.PING"}, subscribe: []string{"dq.event.>", "dq.event.dead.mail", "_INBOX_operator.x"},
			notPublish:   []string{"dq.push", "dq.push.mail", "dq.ready.mail", "dq.pop.mail", "dq.finish", "dq.bury", ack, "dq.event.rejected", "$JS.API.STREAM.DELETE.PUSHES"},
			notSubscribe: []string{"dq.ready.mail", "dq.ready.>", "dq.push.>", "dq.admin.get", "dq.ack.>", "_INBOX.>", "dq.>"},
		},
		"bridge": {
			publish: []string{"dq.ready.sms.eu", "dq.event.x"}, subscribe: []string{"dq.push.>", "dq.admin.get"},
			notPublish:   []string{"dq.push", "dq.push.mail", "dq.pop.mail", "dq.finish", "dq.admin.purge", "other", "$JS.API.STREAM.DELETE.PUSHES", "$JS.API.STREAM.PURGE.PUSHES"},
			notSubscribe: []string{"dq.ready.>", "dq.event.>", "dq.>", ">", "_INBOX_mail_worker.>", "other"},
		},
	} {
		t.Run(role, func(t *testing.T) {
			for want, list := range map[bool][]string{true: may.publish, false: may.notPublish} {
				for _, subject := range list {
					nc := r.role(role)
					if err := errors.Join(nc.Publish(subject, []byte("{}")), nc.FlushTimeout(patience)); err != nil {
						t.Fatal(err)
					}
					if allowed := nc.LastError() == nil; allowed != want {
						t.Errorf("publish on %s: allowed is %v: %v", subject, allowed, nc.LastError())
					}
					nc.Close()
				}
			}
			for want, list := range map[bool][]string{true: may.subscribe, false: may.notSubscribe} {
				for _, subject := range list {
					nc := r.role(role)
					_, err := nc.SubscribeSync(subject)
					if err = errors.Join(err, nc.FlushTimeout(patience)); err != nil {
						t.Fatal(err)
					}
					if allowed := nc.LastError() == nil; allowed != want {
						t.Errorf("subscribe %s: allowed is %v: %v", subject, allowed, nc.LastError())
					}
					nc.Close()
				}
			}
		})
	}
}

// TestAccounts: workers in another account than the bridge, by the exports and imports of the configuration in docs/.
func TestAccounts(t *testing.T) { //nolint:paralleltest // as above
	r := configured(t, "nats-accounts.conf")
	mail := r.connect(nats.UserInfo("mail", password))
	dead, err := mail.SubscribeSync("dq.event.dead.mail")
	if err != nil {
		t.Fatal(err)
	}
	push := pushBy(t, mail, "dq.push.mail")
	// Nobody listens there: no attempt counts, also of a job that is gone once it was handed over.
	push(`{"id":"waits","ttr":0}`)
	r.tried(t)
	w := r.member(t, mail, "mail", "workers")
	w.next(t).is(t, "waits", 1)
	for i, verb := range []func(d *delivery) error{
		func(d *delivery) error { return d.Ack() },
		func(d *delivery) error { return d.AckSync(nats.AckWait(patience)) },
		func(d *delivery) error { return d.NakWithDelay(10 * time.Millisecond) },
		func(d *delivery) error { return d.Term() },
		func(d *delivery) error { return mail.Publish(d.Header.Get("Dq-Ack"), nil) },
		func(d *delivery) error {
			got, err := mail.Request("dq.finish", []byte(d.id()), patience)
			if err == nil && !strings.Contains(string(got.Data), `"finished":1`) {
				err = errors.New(string(got.Data))
			}
			return err
		},
	} {
		id := fmt.Sprintf("job-%d", i)
		push(`{"id":"` + id + `","ttr":60}`)
		d := w.next(t).is(t, id, 1)
		if err := errors.Join(d.InProgress(), verb(d)); err != nil {
			t.Fatalf("verb %d: %v", i, err)
		}
		if i == 2 {
			w.next(t).is(t, id, 2).finish(t)
		}
	}
	if msg, err := dead.NextMsg(patience); err != nil || msg.Header.Get("Dq-Id") != "job-3" {
		t.Errorf("the dead job: %v %v", msg, err)
	}
	r.finish(t, "job-3")
	w.leave(t)
	for i := range 2 {
		push(fmt.Sprintf(`{"id":"pulled-%d","ttr":60}`, i))
		job, err := mail.Request("dq.pop.mail", []byte(`{"wait":"10s"}`), 2*patience)
		if err != nil || job.Header.Get("Dq-Id") == "" {
			t.Fatalf("pull: %v %v", job, err)
		}
		t.Logf("the reply subject of a pulled job is %s", job.Reply)
		to := map[int]string{0: job.Header.Get("Dq-Ack"), 1: job.Reply}[i]
		if got, err := mail.Request(to, []byte("+ACK"), patience); err != nil || !strings.Contains(string(got.Data), `"finished":1`) {
			t.Errorf("ack of a pulled job on %s: %v %v", to, got, err)
		}
	}
	// What is not imported does not cross.
	for _, subject := range []string{"dq.push", "dq.push.sms", "dq.pop.sms", "dq.admin.stats", "dq.bury"} {
		if got, err := mail.Request(subject, nil, patience); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s across accounts: %v %v", subject, got, err)
		}
	}
	r.emptied(t)
	if lines := r.main.refusals(); len(lines) > 0 {
		t.Errorf("NATS refused:\n%s", strings.Join(lines, ""))
	}
}

// A stream of another account takes jobs: its answers cross the border like those of its workers. The bridge cannot see that
// stream, but hears it.
func TestStreamOfAnotherAccount(t *testing.T) { //nolint:paralleltest // as above
	r := configured(t, "nats-accounts.conf")
	account, err := r.nats.Server().LookupAccount("MAIL")
	if err != nil {
		t.Fatal(err)
	}
	if err = account.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}}, nil); err != nil {
		t.Fatal(err)
	}
	mail := r.connect(nats.UserInfo("mail", password))
	js, err := jetstream.New(mail)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "WORK", Subjects: []string{"dq.ready.mail"}, Storage: jetstream.MemoryStorage, MaxMsgs: 1, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	work := &out{Stream: stream, rig: r}
	push := pushBy(t, mail, "dq.push.mail")
	is := func(id, state string, attempt int) {
		t.Helper()
		testenv.Eventually(t, patience, func() bool {
			job := r.look(t, id)
			return job.State == state && job.Attempt == attempt
		}, fmt.Sprintf("the job %s is %s after %d deliveries", id, state, attempt))
	}
	push(`{"id":"taken","ttr":600}`)
	work.has(t, 1)
	is("taken", "inflight", 1)
	push(`{"id":"held","ttr":600}`)
	testenv.Eventually(t, patience, func() bool { return r.main.metric(t, "dqbridge_returned_total") > 0 }, "what a full stream refuses is taken back")
	is("held", "ready", 0)
	work.has(t, 1)
	if err = mail.Publish(work.message(t, 1).Header.Get("Dq-Ack"), []byte("+ACK")); err != nil {
		t.Fatal(err)
	}
	if err = stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	work.has(t, 1)
	if got, err := mail.Request("dq.finish", []byte("held"), patience); err != nil || !strings.Contains(string(got.Data), `"finished":1`) {
		t.Errorf("finish: %v %v", got, err)
	}
	r.emptied(t)
}
