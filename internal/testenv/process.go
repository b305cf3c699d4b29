package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/child"
)

// Process is a running dqbridge.
type Process struct {
	t              testing.TB
	process        *child.Process
	stdout, stderr Output
}

// Output collects what a process or a log writes, while tests read.
type Output struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Write(p)
}

// String is all that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// Start runs the built binary with these arguments. env entries ("DQ_PREFIX=x") are all the DQ_ variables it sees.
func Start(tb testing.TB, env []string, args ...string) *Process {
	tb.Helper()
	return StartBinary(tb, Build(tb), env, args...)
}

// StartBinary is Start for another binary than the one that Build gives.
func StartBinary(tb testing.TB, path string, env []string, args ...string) *Process {
	tb.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(cleanEnvironment(), env...)
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open must not hold up Wait
	p := &Process{t: tb}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		tb.Fatalf("start dqbridge: %v", err)
	}
	p.process = process
	tb.Cleanup(func() {
		process.Kill()
		if tb.Failed() {
			tb.Logf("dqbridge %s\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), p.Stdout(), p.Stderr())
		}
	})
	return p
}

// Pid is the process id.
func (p *Process) Pid() int { return p.process.Pid() }

// Stdout is all it has written there so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr is all it has written there so far, the log.
func (p *Process) Stderr() string { return p.stderr.String() }

// WaitFor waits for a line with this text, in stdout or stderr, and gives the first such line. It fails the test when
// there is none in time, or the process ends without one.
func (p *Process) WaitFor(text string, within time.Duration) string {
	p.t.Helper()
	var line string
	p.Ready(within, func() bool {
		line = lineWith(p.Stdout()+"\n"+p.Stderr(), text)
		return line != ""
	}, "a line with "+text)
	return line
}

// Ready waits for a condition of the process, and fails the test when it ends first.
func (p *Process) Ready(within time.Duration, cond func() bool, message string) {
	p.t.Helper()
	if poll(within, p.process.Done(), cond) {
		return
	}
	if !p.process.Running() {
		p.t.Fatalf("dqbridge ended with exit code %d before: %s", p.process.ExitCode(), message)
	}
	p.t.Fatalf("not within %v: %s", within, message)
}

// Running says whether it has not ended yet.
func (p *Process) Running() bool { return p.process.Running() }

// Kill ends it as a crash would (SIGKILL) and waits until it is gone.
func (p *Process) Kill() { p.process.Kill() }

// Term asks it to end (SIGTERM) and does not wait.
func (p *Process) Term() { p.Signal(syscall.SIGTERM) }

// Signal sends any other signal: SIGSTOP and SIGCONT freeze it for a while.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.process.Signal(sig); err != nil {
		p.t.Fatalf("signal dqbridge: %v", err)
	}
}

// Wait gives its exit code, -1 where a signal ended it, and fails the test when it does not end in time.
func (p *Process) Wait(within time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.process.Done():
		return p.process.ExitCode()
	case <-timer.C:
		p.t.Fatalf("dqbridge still runs after %v", within)
		return -1
	}
}

func lineWith(output, text string) string {
	for line := range strings.Lines(output) {
		if strings.Contains(line, text) {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}

// cleanEnvironment is the test's environment without DQ_ variables, so that a developer's own change no result.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "DQ_") {
			env = append(env, entry)
		}
	}
	return env
}
