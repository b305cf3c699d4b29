package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/child"
)

const (
	startWithin = 20 * time.Second // two shared cores and a race detector: slow starts are no failures
	stopGrace   = 5 * time.Second
)

// errEnded: the server ended instead of answering, most likely because its port was taken meanwhile.
var errEnded = errors.New("redis-server ended at start")

// redisServer is a redis-server child without a test: the one of a test, or the shared one.
type redisServer struct {
	dir     string
	addr    string
	args    []string // of the command line, complete
	process *child.Process
	client  *redis.Client
}

// startRedis starts a server on a free port; extra is appended to its command line.
func startRedis(extra []string) (*redisServer, error) {
	const tries = 5
	var err error
	for range tries {
		var server *redisServer
		if server, err = tryRedis(extra); err == nil {
			return server, nil
		}
		if !errors.Is(err, errEnded) {
			return nil, err
		}
	}
	return nil, err
}

func tryRedis(extra []string) (*redisServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dqredis")
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if len(extra) > 0 && !strings.HasPrefix(extra[0], "-") { // a configuration file comes first
		s.args, extra = extra[:1:1], extra[1:]
	}
	s.args = append(s.args,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--loglevel", "notice")
	s.args = append(s.args, extra...)
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr})
	return s, nil
}

// start starts the process and waits until it answers.
func (s *redisServer) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("these tests need redis-server in the PATH (apt-get install redis-server): %w", err)
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy of it
	cmd := exec.Command(path, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	if !poll(startWithin, s.process.Done(), s.answers) {
		s.process.Kill()
		return fmt.Errorf("%w: %s", errEnded, s.logTail())
	}
	return nil
}

// answers says whether this very server, not a stranger on its port, takes commands.
func (s *redisServer) answers() bool {
	conn, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing was written that could be lost
	if err = conn.SetDeadline(now().Add(time.Second)); err != nil {
		return false
	}
	if _, err = io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return false
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+PONG" {
		return false
	}
	for lines.Scan() {
		if id, found := strings.CutPrefix(lines.Text(), "process_id:"); found {
			return id == strconv.Itoa(s.process.Pid())
		}
	}
	return false
}

// remove ends the server and removes all it left.
func (s *redisServer) remove() {
	_ = s.client.Close()
	s.process.Kill()
	_ = os.RemoveAll(s.dir)
}

func (s *redisServer) logPath() string { return filepath.Join(s.dir, "server.log") }

// logTail is the end of the server's log.
func (s *redisServer) logTail() string {
	const most = 4000
	data, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
