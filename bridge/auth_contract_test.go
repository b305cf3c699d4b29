package bridge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const (
	// lockedOut is long enough for a client that gives up to have given up, and for one that spins to show it.
	lockedOut = 3 * time.Second
	// readyAgain is how soon the bridge must be back once it may.
	readyAgain = 5 * time.Second
)

// locked takes a bridge through a time in which NATS refuses it: it is not ready and does not spin; once open lets it in
// again it goes on by itself, and what was due meanwhile comes as attempt 1.
func (r *rig) locked(t *testing.T, shut, open func()) {
	t.Helper()
	r.history.allowRepeats()
	w := r.work(t, "t")
	r.push(t, `{"id":"due","topic":"t","delay":1,"max_attempts":1}`)
	shut()
	r.main.ready(t, 503, patience)
	pause(t, time.Second) // a user who ends in this second may be let in some more times
	before, lines := r.tries(t), len(r.main.log.lines(""))
	pause(t, lockedOut)
	tries, said := r.tries(t)-before, len(r.main.log.lines(""))-lines
	t.Logf("%d tries to connect and %d lines of log in %v", tries, said, lockedOut)
	const most = 12
	if tries < 2 || tries > most || said > most {
		t.Errorf("%d tries to connect and %d lines of log in %v", tries, said, lockedOut)
	}
	if status, body := r.main.get(t, "/readyz"); status != 503 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := r.main.get(t, "/healthz"); status != 200 {
		t.Errorf("/healthz: %d %s", status, body)
	}
	open()
	since := time.Now()
	r.main.ready(t, 200, readyAgain)
	t.Logf("ready again after %v", time.Since(since).Round(time.Millisecond))
	testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
	w.next(t).is(t, "due", 1).finish(t)
	r.push(t, `{"id":"after","topic":"t"}`)
	w.next(t).is(t, "after", 1).finish(t)
	r.emptied(t)
	if n := len(r.main.log.lines("connection is away")); n > most {
		t.Errorf("the log says %d times that the connection is away", n)
	}
}

// tries counts the connections that the server ever took.
func (r *rig) tries(t *testing.T) int {
	t.Helper()
	varz, err := r.nats.Server().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return int(varz.TotalConnections)
}

// TestPasswordRotates: the bridge's password is another one on the server for a while.
func TestPasswordRotates(t *testing.T) {
	t.Parallel()
	r := guarded(t)
	password := func(password string) func() {
		return func() {
			r.nats.Reload(users(r.Prefix), func(o *server.Options) { o.Users[0].Password = password })
		}
	}
	r.locked(t, password("another"), password("secret-b"))
}

// TestCredentialsExpire: the user that the credentials file names ends, and the file is written anew later.
func TestCredentialsExpire(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	nats0 := testenv.NATS(t, o.trusted)
	file := filepath.Join(t.TempDir(), "bridge.creds")
	o.write(t, file, 3*time.Second)
	forever := filepath.Join(t.TempDir(), "all.creds")
	o.write(t, forever, 0)
	r := newRig(t, func(s *setup) {
		s.nats, s.creds, s.client = nats0, file, []nats.Option{nats.UserCredentials(forever)}
	})
	r.locked(t, func() {}, func() { o.write(t, file, time.Hour) })
}

// operator is one who gives users to a NATS server, with one account.
type operator struct {
	trusted testenv.NATSOption
	account nkeys.KeyPair
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	operators, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewAccountClaims(public(t, account))
	token, err := claims.Encode(operators)
	if err != nil {
		t.Fatal(err)
	}
	self := jwt.NewOperatorClaims(public(t, operators))
	if _, err = self.Encode(operators); err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err = resolver.Store(public(t, account), token); err != nil {
		t.Fatal(err)
	}
	return &operator{account: account, trusted: func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{self}, resolver
	}}
}

// write writes a credentials file of a new user, who ends after a while; 0: never.
func (o *operator) write(t *testing.T, file string, after time.Duration) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public(t, user))
	if after > 0 {
		claims.Expires = time.Now().Add(after).Unix()
	}
	token, err := claims.Encode(o.account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	whole := fmt.Sprintf("%s.%d", file, time.Now().UnixNano()) // so that nobody reads half of it
	if err = os.WriteFile(whole, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err = os.Rename(whole, file); err != nil {
		t.Fatal(err)
	}
}

func public(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	name, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReconnectsWithoutEnd: the bridge goes on trying far beyond what NATS clients try by default.
func TestReconnectsWithoutEnd(t *testing.T) {
	t.Parallel()
	const tries = 200
	var count atomic.Int64
	r := newRig(t, func(s *setup) {
		s.reconnectPause = func(int) time.Duration { // the pauses would take minutes
			count.Add(1)
			return 5 * time.Millisecond
		}
	})
	w := r.work(t, "t")
	r.nats.Shutdown()
	testenv.Eventually(t, patience, func() bool { return count.Load() >= tries }, "the bridge tries again and again")
	r.main.ready(t, 503, patience)
	r.nats.Restart()
	r.main.ready(t, 200, patience)
	testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
	r.push(t, `{"id":"a","topic":"t"}`)
	w.next(t).is(t, "a", 1).finish(t)
	r.emptied(t)
}
