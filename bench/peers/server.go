package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// startWithin is how long a server may take until it listens.
const startWithin = 20 * time.Second

// server is a child process that listens on loopback.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// freeAddr is an address on loopback that nobody listens on at present.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startServer starts a program that will listen on addr, and waits until it does. Its output goes to a file in dir.
func startServer(ctx context.Context, dir, addr string, cmd *exec.Cmd) (*server, error) {
	name := filepath.Base(cmd.Path)
	s := &server{name: name, addr: addr, cmd: cmd, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy of it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go s.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := s.listening(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// run keeps its thread for the child's whole life: the kernel sends the death signal when that thread ends.
func (s *server) run(started chan<- error) {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	started <- err
	if err == nil {
		_ = s.cmd.Wait() // it is killed in the end
	}
}

// listening waits until somebody accepts on the server's address.
func (s *server) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	var dialer net.Dialer
	for {
		if conn, err := dialer.DialContext(ctx, "tcp", s.addr); err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-s.done:
			return fmt.Errorf("%s ended at start: %s", s.name, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", s.name, ctx.Err())
		}
	}
}

// tail is the end of what it wrote.
func (s *server) tail() string {
	const most = 2000
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// stop ends it at once and waits until it is gone.
func (s *server) stop() {
	if s == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only where it has ended
	<-s.done
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// rss is the memory that the process has in use, in bytes.
func (s *server) rss() (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid()), "statm"))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0, fmt.Errorf("read memory of %s: %w", s.name, err)
	}
	return resident * int64(os.Getpagesize()), nil
}
