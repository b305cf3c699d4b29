// Package child runs another program that must not outlive this one: the Redis of `dqbridge dev`, the servers and
// bridges that tests start. A terminal's Ctrl-C does not reach it, so the parent decides when it ends.
package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a started child. Its methods may be called from any goroutine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // what Wait said: written before done is closed, read after
}

// Start starts cmd in a process group of its own. On Linux the kernel sends it deathSignal when this process ends,
// however it ends; elsewhere a killed parent leaves its child behind.
func Start(cmd *exec.Cmd, deathSignal syscall.Signal) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(deathSignal, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run keeps its thread for the child's whole life: Linux sends the death signal when the thread that started the
// child ends, and the Go runtime may end an idle thread at any time.
func (p *Process) run(deathSignal syscall.Signal, started chan<- error) {
	defer close(p.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.cmd.SysProcAttr = attributes(deathSignal)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the child has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode waits for the end; -1 means that a signal ended the child.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Err waits for the end and says how it ended, nil after exit code 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal; one to a child that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the child at once and waits until it is gone.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // it fails only for a child that has just ended
	<-p.done
}

// Stop asks the child to end, kills it when it has not within grace, and waits until it is gone.
func (p *Process) Stop(grace time.Duration) {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		p.Kill() // no SIGTERM on this system
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}
