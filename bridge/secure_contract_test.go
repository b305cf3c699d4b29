package bridge_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// works takes one job through the bridge: push, delivery, touch, redelivery, finish.
func (r *rig) works(t *testing.T) {
	t.Helper()
	w := r.work(t, "t")
	r.push(t, `{"id":"a","topic":"t","delay":0.01}`)
	w.next(t).is(t, "a", 1).settle(t, "-NAK")
	w.next(t).is(t, "a", 2).finish(t)
	w.leave(t)
	r.emptied(t)
}

func nkeyFile(t *testing.T) (string, string) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.nk")
	if err = os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, public(t, user)
}

// TestNATSIdentities: each way in which a server may want to know who the bridge is.
func TestNATSIdentities(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	own, client := ca.Issue("127.0.0.1", time.Hour), ca.Issue("bridge", time.Hour)
	seed, key := nkeyFile(t)
	creds := filepath.Join(t.TempDir(), "bridge.creds")
	o := newOperator(t)
	o.write(t, creds, 0)
	for name, row := range map[string]struct {
		server testenv.NATSOption
		user   string
		set    func(s *setup)
		client []nats.Option
	}{
		"user and password": {func(o *server.Options) { o.Username, o.Password = "u", "p@ss:/#" }, "u:" + url.QueryEscape("p@ss:/#") + "@", nil, []nats.Option{nats.UserInfo("u", "p@ss:/#")}},
		"token":             {func(o *server.Options) { o.Authorization = "s3cret" }, "s3cret@", nil, []nats.Option{nats.Token("s3cret")}},
		"NKey":              {func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: key}} }, "", func(s *setup) { s.natsFiles.NKey = seed }, nil},
		"JWT":               {o.trusted, "", func(s *setup) { s.natsFiles.Creds = creds }, []nats.Option{nats.UserCredentials(creds)}},
		"TLS":               {testenv.NATSTLS(own, nil), "", func(s *setup) { s.natsFiles.CA = ca.File }, []nats.Option{nats.RootCAs(ca.File)}},
		"TLS with client certificates": {testenv.NATSTLS(own, ca), "", func(s *setup) {
			s.natsFiles.CA, s.natsFiles.Cert, s.natsFiles.Key = ca.File, client.Cert, client.Key
		}, []nats.Option{nats.RootCAs(ca.File), nats.ClientCert(client.Cert, client.Key)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) {
				s.nats = testenv.NATS(t, row.server)
				s.natsURL = "nats://" + row.user + s.nats.Addr()
				s.client = row.client
				if row.set != nil {
					row.set(s)
				}
				if name == "NKey" {
					option, err := nats.NkeyOptionFromSeed(seed)
					if err != nil {
						t.Fatal(err)
					}
					s.client = []nats.Option{option}
				}
			})
			r.works(t)
		})
	}
}

// tlsRedis starts a Redis that speaks TLS on its port, and without it on a socket for the test itself.
func tlsRedis(t *testing.T, own testenv.Issued, ca *testenv.Authority, clients string) string {
	t.Helper()
	port := testenv.FreePort(t)
	testenv.Redis(t, "--tls-port", port, "--tls-cert-file", own.Cert, "--tls-key-file", own.Key, "--tls-ca-cert-file", ca.File,
		"--tls-auth-clients", clients)
	return "rediss://127.0.0.1:" + port + "/0"
}

// TestRedisTLS: over TLS, with and without client certificates, and over a socket.
func TestRedisTLS(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	own, client := ca.Issue("127.0.0.1", time.Hour), ca.Issue("bridge", time.Hour)
	for name, row := range map[string]struct {
		clients string
		files   delay.RedisOptions
	}{
		"TLS":                          {"no", delay.RedisOptions{CA: ca.File}},
		"TLS with client certificates": {"yes", delay.RedisOptions{CA: ca.File, Cert: client.Cert, Key: client.Key}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := tlsRedis(t, own, ca, row.clients)
			newRig(t, func(s *setup) { s.redisURL, s.redisFiles = address, row.files }).works(t)
		})
	}
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		dir, err := os.MkdirTemp("", "dqsock") //nolint:usetesting // t.TempDir is too long for a socket's path
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, "redis.sock")
		server := testenv.Redis(t, "--unixsocket", path)
		newRig(t, func(s *setup) { s.redis, s.redisURL = server, "unix://"+path }).works(t)
	})
}

// TestMisfits: what an operator must change is told as such, with the variable, once, and without the secret; the bridge
// goes on trying.
func TestMisfits(t *testing.T) {
	t.Parallel()
	ca, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	good, ended, elsewhere := ca.Issue("127.0.0.1", time.Hour), ca.Issue("127.0.0.1", -time.Hour), ca.Issue("example.org", time.Hour)
	client, clientEnded, stranger := ca.Issue("bridge", time.Hour), ca.Issue("bridge", -time.Hour), other.Issue("bridge", time.Hour)
	seed, _ := nkeyFile(t)
	o := newOperator(t)
	creds, trusted := filepath.Join(t.TempDir(), "other.creds"), o.trusted
	newOperator(t).write(t, creds, 0)
	overNATS := func(own testenv.Issued, clients *testenv.Authority, file string, cert testenv.Issued) func(t *testing.T, s *setup) {
		t.Helper()
		return func(t *testing.T, s *setup) {
			t.Helper()
			s.nats = testenv.NATS(t, testenv.NATSTLS(own, clients))
			s.natsURL = "nats://u:S3CRET@" + s.nats.Addr()
			s.natsFiles.CA, s.natsFiles.Cert, s.natsFiles.Key = file, cert.Cert, cert.Key
			s.client = []nats.Option{
				nats.Secure(nil), nats.RootCAs(ca.File), nats.ClientCert(client.Cert, client.Key), nats.RetryOnFailedConnect(true),
			}
		}
	}
	overRedis := func(own testenv.Issued, clients, file string, cert testenv.Issued) func(t *testing.T, s *setup) {
		t.Helper()
		return func(t *testing.T, s *setup) {
			t.Helper()
			s.redisURL = strings.Replace(tlsRedis(t, own, ca, clients), "//", "//:S3CRET@", 1)
			s.redisFiles = delay.RedisOptions{CA: file, Cert: cert.Cert, Key: cert.Key}
		}
	}
	guardedNATS := func(user string, option testenv.NATSOption, set func(s *setup)) func(t *testing.T, s *setup) {
		t.Helper()
		return func(t *testing.T, s *setup) {
			t.Helper()
			s.nats = testenv.NATS(t, option)
			s.natsURL = "nats://" + user + s.nats.Addr()
			s.client = []nats.Option{nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.MaxReconnects(0)}
			set(s)
		}
	}
	none := testenv.Issued{}
	for name, row := range map[string]struct {
		set   func(t *testing.T, s *setup)
		names []string
	}{
		"nats: expired certificate":        {overNATS(ended, nil, ca.File, none), []string{"has expired"}},
		"nats: another host":               {overNATS(elsewhere, nil, ca.File, none), []string{"another host", "DQ_NATS_URL"}},
		"nats: unknown CA":                 {overNATS(good, nil, other.File, none), []string{"CA that is not known", "DQ_NATS_CA"}},
		"nats: no client certificate":      {overNATS(good, ca, ca.File, none), []string{"client certificate", "DQ_NATS_CERT"}},
		"nats: client certificate expired": {overNATS(good, ca, ca.File, clientEnded), []string{"client certificate", "DQ_NATS_CERT"}},
		"nats: client of another CA":       {overNATS(good, ca, ca.File, stranger), []string{"client certificate", "DQ_NATS_CERT"}},
		"nats: no TLS there":               {guardedNATS("", func(*server.Options) {}, func(s *setup) { s.natsFiles.CA = ca.File }), []string{"has no TLS", "DQ_NATS_URL"}},
		"nats: wrong password": {
			guardedNATS("u:S3CRET@", func(o *server.Options) { o.Username, o.Password = "u", "other" }, func(*setup) {}),
			[]string{"refuses the user, password", "DQ_NATS_URL"},
		},
		"nats: wrong token": {guardedNATS("S3CRET@", func(o *server.Options) { o.Authorization = "other" }, func(*setup) {}), []string{"token", "DQ_NATS_URL"}},
		"nats: unknown key": {guardedNATS("", func(o *server.Options) { _, key := nkeyFile(t); o.Nkeys = []*server.NkeyUser{{Nkey: key}} },
			func(s *setup) { s.natsFiles.NKey = seed }), []string{"DQ_NATS_NKEY"}},
		"nats: user of another operator": {guardedNATS("", trusted, func(s *setup) { s.natsFiles.Creds = creds }), []string{"DQ_NATS_CREDS"}},

		"redis: expired certificate":        {overRedis(ended, "no", ca.File, none), []string{"has expired"}},
		"redis: another host":               {overRedis(elsewhere, "no", ca.File, none), []string{"another host", "DQ_REDIS_URL"}},
		"redis: unknown CA":                 {overRedis(good, "no", other.File, none), []string{"CA that is not known", "DQ_REDIS_CA"}},
		"redis: no client certificate":      {overRedis(good, "yes", ca.File, none), []string{"client certificate", "DQ_REDIS_CERT"}},
		"redis: client certificate expired": {overRedis(good, "yes", ca.File, clientEnded), []string{"client certificate", "DQ_REDIS_CERT"}},
		"redis: client of another CA":       {overRedis(good, "yes", ca.File, stranger), []string{"client certificate", "DQ_REDIS_CERT"}},
		"redis: wrong password": {func(t *testing.T, s *setup) {
			t.Helper()
			s.redisURL = "redis://u:S3CRET@" + testenv.SharedRedis(t).Addr()
		}, []string{"refuses the user or the password of DQ_REDIS_URL"}},
		"redis: no password": {func(t *testing.T, s *setup) {
			t.Helper()
			server := testenv.Redis(t)
			if err := server.Client().Do(context.Background(), "acl", "setuser", "other", "on", "nopass", "+@all", "~*").Err(); err != nil {
				t.Fatal(err)
			}
			if err := server.Client().Do(context.Background(), "acl", "setuser", "default", "off").Err(); err != nil {
				t.Fatal(err)
			}
			s.redisURL = server.URL()
		}, []string{"wants a user or a password", "DQ_REDIS_URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) { s.idle = true; row.set(t, s) })
			b := r.run(t)
			told := func() []string {
				var lines []string
				for _, line := range append(b.log.lines(`"level":"error"`), b.log.lines(`"level":"warn"`)...) {
					all := true
					for _, name := range row.names {
						all = all && strings.Contains(line, name)
					}
					if all {
						lines = append(lines, line)
					}
				}
				return lines
			}
			testenv.Eventually(t, patience, func() bool { return len(told()) > 0 || b.over() }, "the log says what is wrong: "+strings.Join(row.names, ", "))
			pause(t, time.Second)
			if b.over() {
				t.Fatalf("it gave up: %v", b.err)
			}
			if lines := told(); len(lines) > 3 {
				t.Errorf("told %d times:\n%s", len(lines), strings.Join(lines, ""))
			}
			if b.log.has("S3CRET") {
				t.Error("the secret is told")
			}
			if _, page := b.get(t, "/readyz"); strings.Contains(page, "S3CRET") || strings.Contains(page, "ok") {
				t.Errorf("/readyz: %s", page)
			}
			if _, page := b.get(t, "/metrics"); strings.Contains(page, "S3CRET") {
				t.Error("the secret is in /metrics")
			}
		})
	}
}
