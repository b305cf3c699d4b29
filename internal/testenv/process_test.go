package testenv_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestStart(t *testing.T) {
	t.Parallel()
	p := testenv.Start(t, nil, "version")
	p.WaitFor("dqbridge ", 10*time.Second)
	if code := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if p.Running() || p.Stdout() == "" || p.Stderr() != "" {
		t.Errorf("stdout %q, stderr %q", p.Stdout(), p.Stderr())
	}
	p.Term() // no harm
	if code := testenv.Start(t, nil, "no-such-command").Wait(10 * time.Second); code != 2 {
		t.Errorf("exit code %d", code)
	}
}

func TestStartEndsBySignal(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	env := []string{"DQ_NATS_URL=" + server.URL()}
	p := testenv.Start(t, env, "watch")
	p.WaitFor("watching dq.event.>", 10*time.Second)
	p.Signal(syscall.SIGSTOP)
	p.Signal(syscall.SIGCONT)
	p.Term()
	if code := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = testenv.Start(t, env, "watch")
	p.WaitFor("watching dq.event.>", 10*time.Second)
	p.Kill()
	if code := p.Wait(10 * time.Second); code != -1 {
		t.Errorf("exit code %d", code)
	}
}
