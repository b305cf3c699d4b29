package dev

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func start(t *testing.T, dir string) *Servers {
	t.Helper()
	servers, err := Start(t.Context(), Options{Dir: dir, NATSAddr: "127.0.0.1:0", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Stop)
	return servers
}

func redisClient(t *testing.T, servers *Servers) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(servers.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// dataDir is as short as t.TempDir is long: the usual case has the socket in the directory.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dqdev") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestStartKeepsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), "with a space", "%41")
	servers := start(t, dir)
	if !servers.Persistent {
		t.Error("not persistent")
	}
	client := redisClient(t, servers)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "port": "0"} {
		if got := client.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	nc, err := nats.Connect(servers.NATSURL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "s"}); err != nil {
		t.Error(err)
	}
	servers.Stop()
	servers.Stop() // does nothing
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); err != nil {
		t.Error(err)
	}
	if got := redisClient(t, start(t, dir)).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after a new start: %q", got)
	}
}

func TestStartTwiceInOneDirectory(t *testing.T) {
	t.Parallel()
	short := dataDir(t)
	for name, dir := range map[string]string{
		"short path": short,
		"long path":  filepath.Join(short, strings.Repeat("x", 120)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t, dir)
			if err := redisClient(t, servers).Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			_, err := Start(t.Context(), Options{Dir: dir, NATSAddr: "127.0.0.1:0", Log: zerolog.Nop()})
			if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "--dir") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStartSaysWhichPortIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := dataDir(t)
	_, err = Start(t.Context(), Options{Dir: dir, NATSAddr: listener.Addr().String(), Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), listener.Addr().String()) || !strings.Contains(err.Error(), "--nats-addr") {
		t.Errorf("error %v", err)
	}
	start(t, dir) // the Redis of the first try is gone
}

func TestStartRefusesAnAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"4222", "127.0.0.1:nats", "127.0.0.1:70000", "127.0.0.1:-1"} {
		if _, err := startNATS(addr, t.TempDir(), zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "--nats-addr") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Dir: dataDir(t), NATSAddr: "127.0.0.1:0", Log: zerolog.Nop()}); err == nil {
		t.Error("no error")
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	servers := start(t, dataDir(t))
	redisClient(t, servers).ShutdownNoSave(t.Context())
	select {
	case <-servers.Gone():
	case <-time.After(10 * time.Second):
		t.Error("nobody notices that Redis ended")
	}
}

func TestNATSOnAllInterfaces(t *testing.T) {
	t.Parallel()
	server, err := startNATS("0.0.0.0:0", dataDir(t), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	nc, err := nats.Connect(natsURL(server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// Not parallel: it changes the PATH.
func TestStandIn(t *testing.T) {
	t.Setenv("PATH", "")
	servers := start(t, t.TempDir())
	if servers.Persistent {
		t.Error("says that data is kept")
	}
	client := redisClient(t, servers)
	if err := client.Set(t.Context(), "k", "v", 30*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	testenv.Eventually(t, 10*time.Second, func() bool {
		return client.Exists(t.Context(), "k").Val() == 0
	}, "expiry by the real clock")
	if took := time.Since(begin); took < 20*time.Millisecond {
		t.Errorf("expired after %v", took)
	}
	if off := time.Since(client.Time(t.Context()).Val()).Abs(); off > 5*time.Second {
		t.Errorf("TIME is off by %v", off)
	}
}
