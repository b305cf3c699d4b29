package testenv

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Dev is a `dqbridge dev` that runs beside all others.
type Dev struct {
	*Process

	Dir, NATSURL string
	HTTPAddr     string // host:port
}

// DevArgs are the arguments of a dev with a directory of its own, whose path is short enough for a socket in it, and
// free ports. more is appended; the directory is removed at the end of the test.
func DevArgs(tb testing.TB, more ...string) (string, []string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "dqdev") //nolint:usetesting // TempDir is too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir, append([]string{"dev", "--dir", dir, "--nats-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, more...)
}

// StartDev starts a dev and waits until its demonstration is over, so that its store is empty.
func StartDev(tb testing.TB) *Dev {
	tb.Helper()
	d := &Dev{HTTPAddr: "127.0.0.1:" + FreePort(tb)}
	dir, args := DevArgs(tb, "--http-addr", d.HTTPAddr)
	d.Dir, d.Process = dir, Start(tb, nil, args...)
	const within = time.Minute
	line := d.WaitFor("dqbridge dev runs: NATS on ", within)
	_, line, _ = strings.Cut(line, "NATS on ")
	d.NATSURL, _, _ = strings.Cut(line, ",")
	d.WaitFor("Ctrl-C ends it", within)
	return d
}
