package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func redisRuns(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, "redis.sock"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func TestDevShowsTheDemonstration(t *testing.T) {
	t.Parallel()
	dir, args := testenv.DevArgs(t, "--exit")
	p := testenv.Start(t, nil, args...)
	p.WaitFor("All as promised", 30*time.Second)
	if code := p.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if redisRuns(dir) {
		t.Error("its Redis still runs")
	}
}

// Where pushes come through a stream, the same holds.
func TestDevWithAPushStream(t *testing.T) {
	t.Parallel()
	_, args := testenv.DevArgs(t, "--exit")
	p := testenv.Start(t, []string{"DQ_PUSH_STREAM=PUSHES"}, args...)
	p.WaitFor("All as promised", 30*time.Second)
	if code := p.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestDevInMemory(t *testing.T) {
	t.Parallel()
	_, args := testenv.DevArgs(t, "--exit")
	p := testenv.Start(t, []string{"PATH="}, args...)
	p.WaitFor("nothing survives the end", 30*time.Second)
	p.WaitFor("All as promised", 30*time.Second)
	if code := p.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestDevServesUntilInterrupted(t *testing.T) {
	t.Parallel()
	dir, args := testenv.DevArgs(t)
	p := testenv.Start(t, []string{"DQ_PREFIX=other.one"}, args...)
	p.WaitFor("Ctrl-C ends it", 30*time.Second)
	p.Signal(syscall.SIGINT)
	if code := p.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(p.Stdout(), "--prefix other.one --work mail") || redisRuns(dir) {
		t.Error("the prefix is not told, or its Redis still runs")
	}
}

func TestDevInterruptedInTheDemonstration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		more []string
		code int
	}{{nil, 0}, {[]string{"--exit"}, 1}} {
		_, args := testenv.DevArgs(t, test.more...)
		p := testenv.Start(t, nil, args...)
		p.WaitFor("pushed", 30*time.Second)
		p.Term()
		if code := p.Wait(30 * time.Second); code != test.code {
			t.Errorf("%q: exit code %d", test.more, code)
		}
	}
}

func TestDevIsKilledAndStartsAgain(t *testing.T) {
	t.Parallel()
	dir, args := testenv.DevArgs(t)
	p := testenv.Start(t, nil, args...)
	p.WaitFor("pushed", 30*time.Second)
	if !redisRuns(dir) {
		t.Error("no Redis in its directory")
	}
	p.Kill()
	again := testenv.Start(t, nil, append(args, "--exit")...) // at once, while its Redis may be ending
	if code := again.Wait(60 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestDevNoticesThatRedisEnded(t *testing.T) {
	t.Parallel()
	dir, args := testenv.DevArgs(t)
	p := testenv.Start(t, []string{"DQ_SHUTDOWN_TIMEOUT=1s"}, args...)
	p.WaitFor("pushed", 30*time.Second)
	conn, err := net.Dial("unix", filepath.Join(dir, "redis.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("SHUTDOWN NOSAVE\r\n")); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(60 * time.Second); code != 1 {
		t.Errorf("exit code %d", code)
	}
	p.WaitFor("ended by itself", time.Second)
}
