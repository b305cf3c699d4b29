package testenv

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Eventually fails the test when cond is not true within the given time. The message says what was waited for.
func Eventually(tb testing.TB, within time.Duration, cond func() bool, message string) {
	tb.Helper()
	if !poll(within, nil, cond) {
		tb.Fatalf("not within %v: %s", within, message)
	}
}

// poll asks cond until it is true, the time is over, or over is closed; it asks once more then.
func poll(within time.Duration, over <-chan struct{}, cond func() bool) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	ticker := time.NewTicker(3 * time.Millisecond)
	defer ticker.Stop()
	for {
		if cond() {
			return true
		}
		select {
		case <-ticker.C:
		case <-over:
			return cond()
		case <-deadline.C:
			return cond()
		}
	}
}

// Prefix is a subject and key prefix that no other test has: letters, digits, - and _.
func Prefix(tb testing.TB) string {
	tb.Helper()
	const longest = 40 // keeps keys and subjects readable in a failure
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, tb.Name())
	return name[:min(len(name), longest)] + "-" + strings.ToLower(crand.Text()[:8])
}

// freePort finds a port nobody listens on, below those the system gives to outgoing connections, so that it is still
// free when its server is restarted.
func freePort() (int, error) {
	const lowest, count, tries = 15000, 17000, 100
	for range tries {
		port := lowest + rand.IntN(count)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free port after %d tries", tries)
}

// now is the real clock: what is here deals with sockets and other processes, which know no other.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above

// FreePort is a port that nobody listens on, for what a test starts in its own way.
func FreePort(tb testing.TB) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	return strconv.Itoa(port)
}
