package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
)

// startNATS starts a nats-server of its own process, so that its CPU can be told apart. more is added to its configuration.
func startNATS(ctx context.Context, path, dir, more string) (*server, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "nats")
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nats.conf")
	if err = os.WriteFile(file, fmt.Appendf(nil, "listen: %q\n%s", addr, more), 0o600); err != nil {
		return nil, err
	}
	return startServer(ctx, dir, addr, exec.Command(path, "-c", file))
}

func (s *server) connect() (*nats.Conn, error) {
	nc, err := nats.Connect("nats://"+s.addr, nats.Timeout(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.name, err)
	}
	return nc, nil
}

// pipe sends requests on one connection, many in flight, and checks their answers.
type pipe struct {
	slots

	nc    *nats.Conn
	inbox string
	check func(answer []byte) error
}

func newPipe(nc *nats.Conn, most int, check func([]byte) error) (*pipe, error) {
	p := &pipe{nc: nc, slots: newSlots(most), inbox: nc.NewInbox(), check: check}
	sub, err := nc.Subscribe(p.inbox, p.answer)
	if err != nil {
		return nil, err
	}
	return p, sub.SetPendingLimits(-1, -1)
}

func (p *pipe) answer(msg *nats.Msg) {
	if err := p.check(msg.Data); err != nil {
		p.fail(err)
	}
	p.free()
}

// send publishes msg as a request as soon as there is a slot.
func (p *pipe) send(ctx context.Context, msg *nats.Msg) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	msg.Reply = p.inbox
	return p.nc.PublishMsg(msg)
}
