package testenv_test

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestPrefix(t *testing.T) {
	t.Parallel()
	t.Run("with a strange/näme", func(t *testing.T) {
		t.Parallel()
		one, two := testenv.Prefix(t), testenv.Prefix(t)
		if one == two {
			t.Errorf("%q twice", one)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(one) {
			t.Errorf("%q has other characters", one)
		}
	})
}

func TestSharedRedis(t *testing.T) {
	t.Parallel()
	one, two := testenv.SharedRedis(t), testenv.SharedRedis(t)
	if one.Addr() != two.Addr() {
		t.Errorf("two servers: %s and %s", one.Addr(), two.Addr())
	}
	prefix := testenv.Prefix(t)
	if err := one.Client().Set(t.Context(), prefix+":a", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if keys := two.Keys(prefix); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
	if _, err := redis.ParseURL(one.URL()); err != nil {
		t.Error(err)
	}
}

func TestRedisKillAndRestart(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	if err := server.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Client().Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	server.Restart()
	if got := server.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after the restart: %q", got)
	}
	server.Restart() // while it runs
	if got := server.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after the second restart: %q", got)
	}
}

func TestRedisStopAndCont(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer client.Close()
	server.Stop()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	server.Cont()
	testenv.Eventually(t, 10*time.Second, func() bool { return client.Ping(t.Context()).Err() == nil }, "an answer")
}

func TestNATSRestartKeepsStream(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t, testenv.JetStream())
	nc := server.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "s", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish("s.1", nil); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	testenv.Eventually(t, 10*time.Second, func() bool {
		info, err := js.StreamInfo("s")
		return err == nil && info.State.Msgs == 1
	}, "the stream with its message")
}

// echo is a server that answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

type caller struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func call(t *testing.T, addr string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{t: t, conn: conn, lines: bufio.NewReader(conn)}
}

func (c *caller) send(line string) { fmt.Fprintln(c.conn, line) }

func (c *caller) receive(within time.Duration) (string, error) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	return c.lines.ReadString('\n')
}

func (c *caller) want(want string) {
	c.t.Helper()
	if got, err := c.receive(10 * time.Second); got != want+"\n" {
		c.t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, echo(t))
	c := call(t, p.Addr())
	c.send("plain")
	c.want("plain")

	p.Delay(testenv.ToServer, 100*time.Millisecond)
	begin := time.Now()
	c.send("late")
	c.want("late")
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("arrived after %v", took)
	}
	p.Heal()

	p.Hold(testenv.ToClient)
	c.send("held")
	if got, err := c.receive(50 * time.Millisecond); err == nil {
		t.Errorf("held, and got %q", got)
	}
	p.Heal()
	c.want("held")

	p.Swallow(testenv.ToClient)
	c.send("lost")
	if got, err := c.receive(50 * time.Millisecond); err == nil {
		t.Errorf("swallowed, and got %q", got)
	}
	p.Heal()
	if got, err := c.receive(10 * time.Second); err == nil {
		t.Errorf("lost bytes, and still open: %q", got)
	}
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	p := testenv.NewProxy(t, echo(t))
	c := call(t, p.Addr())
	c.send("a")
	c.want("a")
	p.Cut()
	if got, err := c.receive(10 * time.Second); err == nil {
		t.Errorf("cut, and got %q", got)
	}
	refused := call(t, p.Addr())
	if got, err := refused.receive(10 * time.Second); err == nil {
		t.Errorf("cut, and a new connection got %q", got)
	}
	p.Heal()
	again := call(t, p.Addr())
	again.send("b")
	again.want("b")
	// The proxy notices by itself that the others have ended.
	testenv.Eventually(t, 10*time.Second, func() bool { return p.Connections() == 1 }, "one connection is left")
}
