package testenv

import (
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a real redis-server with a directory of its own, without persistence unless the arguments say so.
type RedisServer struct {
	t      testing.TB
	server *redisServer
	shared bool
}

// Redis starts a redis-server for this test alone. args are appended to its command line:
//
//	testenv.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
func Redis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	server, err := startRedis(args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of redis-server at %s:\n%s", server.addr, server.logTail())
		}
		server.remove()
	})
	return &RedisServer{t: tb, server: server}
}

// Addr is host:port.
func (r *RedisServer) Addr() string { return r.server.addr }

// URL is redis://host:port/0.
func (r *RedisServer) URL() string {
	return (&url.URL{Scheme: "redis", Host: r.server.addr, Path: "/0"}).String()
}

// Pid is the process id of the server that runs now.
func (r *RedisServer) Pid() int { return r.server.process.Pid() }

// Dir is where the server keeps its files.
func (r *RedisServer) Dir() string { return r.server.dir }

// Client is a client of this server that the test may use and must not close. It survives a restart.
func (r *RedisServer) Client() *redis.Client { return r.server.client }

// Keys are all keys under a prefix, for tests that look for leftovers.
func (r *RedisServer) Keys(prefix string) []string {
	r.t.Helper()
	var keys []string
	// A prefix of testenv.Prefix holds no pattern characters.
	found := r.Client().Scan(r.t.Context(), 0, prefix+"*", 1000).Iterator()
	for found.Next(r.t.Context()) {
		keys = append(keys, found.Val())
	}
	if err := found.Err(); err != nil {
		r.t.Fatalf("list keys %s*: %v", prefix, err)
	}
	return keys
}

// Kill ends the server as a crash would (SIGKILL); Restart brings it back.
func (r *RedisServer) Kill() {
	r.t.Helper()
	r.own()
	r.server.process.Kill()
}

// Shutdown ends the server in order (SIGTERM); Restart brings it back.
func (r *RedisServer) Shutdown() {
	r.t.Helper()
	r.own()
	r.server.process.Stop(stopGrace)
}

// Stop freezes the server (SIGSTOP): connections stay open and nothing answers, until Cont.
func (r *RedisServer) Stop() {
	r.t.Helper()
	r.signal(syscall.SIGSTOP)
}

// Cont lets a frozen server go on (SIGCONT).
func (r *RedisServer) Cont() {
	r.t.Helper()
	r.signal(syscall.SIGCONT)
}

// Restart starts the server again on the same port and directory, after ending it in order where it still runs.
func (r *RedisServer) Restart() {
	r.t.Helper()
	r.own()
	r.server.process.Stop(stopGrace)
	if err := r.server.start(); err != nil {
		r.t.Fatal(err)
	}
}

// Log is the end of what the server has logged.
func (r *RedisServer) Log() string { return strings.TrimSpace(r.server.logTail()) }

func (r *RedisServer) signal(sig syscall.Signal) {
	r.t.Helper()
	r.own()
	if err := r.server.process.Signal(sig); err != nil {
		r.t.Fatalf("signal redis-server: %v", err)
	}
}

func (r *RedisServer) own() {
	r.t.Helper()
	if r.shared {
		r.t.Fatal("the shared Redis serves other tests: take one of your own with testenv.Redis")
	}
}
