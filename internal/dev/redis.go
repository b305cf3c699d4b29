package dev

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/internal/child"
)

const (
	pollEvery = 5 * time.Millisecond
	stopGrace = 10 * time.Second // a Redis that ends writes out its append-only file
)

// findRedis is the path of a Redis server that is installed here.
func findRedis() (string, error) {
	var errs []error
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// childRedis is a Redis server of our own: it ends with us, and nobody else can reach it.
type childRedis struct {
	process   *child.Process
	socket    string
	socketDir string // made for the socket alone; empty: it lies beside the data
}

// startChild starts the server and waits until it has read its data.
func startChild(ctx context.Context, program, dir string, log zerolog.Logger) (*childRedis, error) {
	socket, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	if err = waitUnused(ctx, socket, dir); err != nil {
		return nil, err
	}
	logFile := filepath.Join(dir, "redis.log")
	cmd := exec.Command(program, //nolint:noctx // the server outlives ctx: the bridge drains into it
		"--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--dir", ".", "--logfile", logFile, "--loglevel", "notice", "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
	cmd.Dir, cmd.Stderr = dir, os.Stderr // what it says before it has its log file
	// SIGTERM, not SIGKILL: when this process is killed Redis still writes out what it holds.
	process, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	r := &childRedis{process: process, socket: socket}
	if parent := filepath.Dir(socket); parent != dir {
		r.socketDir = parent
	}
	if err := r.waitReady(ctx, log); err != nil {
		r.stop()
		return nil, fmt.Errorf("%s in %s: %w; its log is %s", filepath.Base(program), dir, err, logFile)
	}
	return r, nil
}

func (r *childRedis) url() string           { return (&url.URL{Scheme: "unix", Path: r.socket}).String() }
func (r *childRedis) gone() <-chan struct{} { return r.process.Done() }

func (r *childRedis) stop() {
	r.process.Stop(stopGrace)
	if r.socketDir != "" {
		_ = os.Remove(r.socketDir) // Redis has removed its socket; where it has not, the next start needs the directory
	}
}

// waitReady waits without a limit of its own: a large file takes its time, and ctx ends it.
func (r *childRedis) waitReady(ctx context.Context, log zerolog.Logger) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	slow := time.NewTimer(3 * time.Second)
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.process.Done():
			return fmt.Errorf("it ended: %w", r.process.Err())
		case <-slow.C:
			log.Info().Str("socket", r.socket).Msg("waiting for redis to read its data")
		case <-ticker.C:
			if answers(ctx, r.socket) {
				return nil
			}
		}
	}
}

// waitUnused makes sure that no other Redis writes the same file. One whose parent has just been killed gets the time
// to end.
func waitUnused(ctx context.Context, socket, dir string) error {
	patience := time.NewTimer(3 * time.Second)
	defer patience.Stop()
	ticker := time.NewTicker(20 * pollEvery)
	defer ticker.Stop()
	for listens(ctx, socket) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("a Redis already runs on the data in %s (socket %s): is another dqbridge dev running there? "+
				"End it, or choose another directory with --dir", dir, socket)
		}
	}
	return nil
}

// listens is false only where it is certain that nobody does.
func listens(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
}

// answers says whether the server takes commands: while it reads its file it answers -LOADING.
func answers(ctx context.Context, socket string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	// A server that is busy answers late but does answer; one that ends closes; ctx closes the connection too.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close() //nolint:errcheck // nothing was written that could be lost
	if _, err = conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}

// socketPath is dir/redis.sock, or where that is too long for a socket (104 bytes on some systems, with the end) a
// short path that is always the same for dir, so that a second server on dir is noticed there too.
func socketPath(dir string) (string, error) {
	const longest = 100
	path := filepath.Join(dir, "redis.sock")
	if len(path) <= longest {
		return path, nil
	}
	sum := sha256.Sum256([]byte(dir))
	short := filepath.Join(os.TempDir(), fmt.Sprintf("dqbridge-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
	if err := os.MkdirAll(short, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for the socket: %w", err)
	}
	// In a directory that all may write to, somebody else may have made it before us: then this fails.
	if err := os.Chmod(short, 0o700); err != nil {
		return "", fmt.Errorf("the directory for the socket is not ours: %w", err)
	}
	return filepath.Join(short, "redis.sock"), nil
}

// standIn is miniredis: the commands of Redis in this process, in memory.
type standIn struct{ server *miniredis.Miniredis }

func startStandIn() (*standIn, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the in-memory Redis: %w", err)
	}
	server.ClockTTL(true) // keys expire by the real clock, which its TIME follows anyway
	return &standIn{server: server}, nil
}

func (s *standIn) url() string           { return "redis://" + s.server.Addr() + "/0" }
func (s *standIn) gone() <-chan struct{} { return nil }
func (s *standIn) stop()                 { s.server.Close() }
