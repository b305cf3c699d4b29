package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestStartBeforeTheServers: a bridge waits for Redis and NATS, wrong passwords included, and tells no secret.
func TestStartBeforeTheServers(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-pw"
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redis := durable(t)
		r := newRig(t, func(s *setup) { s.redis, s.idle = redis, true })
		redis.Kill()
		b := r.run(t)
		b.ready(t, 503, patience)
		redis.Restart()
		b.ready(t, 200, patience)
		r.push(t, `{"topic":"t","delay":99}`)
	})
	t.Run("redis password", func(t *testing.T) {
		t.Parallel()
		redis := testenv.Redis(t)
		set := func(password string) {
			t.Helper()
			if err := redis.Client().ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, func(s *setup) {
			s.redis, s.idle, s.redisURL = redis, true, strings.Replace(redis.URL(), "redis://", "redis://:"+secret+"@", 1)
		})
		set("another") // the connection that did it stays good
		b := r.run(t)
		b.ready(t, 503, patience)
		testenv.Eventually(t, patience, func() bool { return b.log.has("connection is away") }, "it is told")
		set(secret)
		b.ready(t, 200, patience)
		r.push(t, `{"topic":"t","delay":99}`)
		tellsNot(t, b, secret)
	})
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.idle = true })
		r.nats.Shutdown()
		b := r.run(t)
		b.ready(t, 503, patience)
		testenv.Eventually(t, patience, func() bool { return b.log.has("connection is away") }, "it is told")
		r.nats.Restart()
		b.ready(t, 200, patience)
		testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
		r.push(t, `{"topic":"t","delay":99}`)
	})
	t.Run("nats password", func(t *testing.T) {
		t.Parallel()
		var options *server.Options
		admit := func(password string) testenv.NATSOption {
			return func(o *server.Options) {
				options = o
				o.Users = []*server.User{{Username: "bridge", Password: password}, {Username: "all", Password: "a"}}
			}
		}
		nats0 := testenv.NATS(t, admit("another"))
		r := newRig(t, func(s *setup) {
			s.idle, s.nats, s.natsURL = true, nats0, "nats://bridge:"+secret+"@"+nats0.Addr()
			s.client = []nats.Option{nats.UserInfo("all", "a")}
		})
		b := r.run(t)
		b.ready(t, 503, patience)
		pause(t, 3*time.Second) // more than the two refusals in a row after which nats.go gives up by itself
		admit(secret)(options)
		nats0.Restart()
		b.ready(t, 200, patience)
		testenv.Eventually(t, patience, r.nc.IsConnected, "the client is connected again")
		r.push(t, `{"topic":"t","delay":99}`)
		tellsNot(t, b, secret)
	})
	t.Run("told to stop", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(s *setup) { s.idle = true })
		r.nats.Shutdown()
		b := r.run(t)
		b.ready(t, 503, patience)
		if err := b.stop(t); err != nil {
			t.Error(err)
		}
	})
}

// tellsNot looks for a secret in the log and in the metrics.
func tellsNot(t *testing.T, b *replica, secret string) {
	t.Helper()
	_, page := b.get(t, "/metrics")
	if b.log.has(secret) || strings.Contains(page, secret) {
		t.Error("the secret is told")
	}
}
