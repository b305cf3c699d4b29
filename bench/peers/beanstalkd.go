package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

var beanstalkdOptions = []Option{
	{"-b", "a directory", "binlog: durable"},
	{"-f", "1000", "synced each second, as the append-only file of Redis is; the default is 50 ms"},
	{"delays", "whole seconds from the put", "the protocol knows no others: the due moment is that of the put plus the delay"},
	{"push", "one connection, 64 puts in flight; batches: two connections, 512 puts in flight each", "as JetStream"},
	{"workers", "1, 2 or 4 connections, up to 128 reserves and deletes in one write while jobs are ready, else one blocking reserve", "commands in one write share its system calls and its round trip; the best number counts"},
}

const (
	bsBatch, bsConnections = 512, 2
	// bsMost is how many reserves a worker sends at once.
	bsMost = 128
)

// Beanstalkd is the server of Debian's package.
type Beanstalkd struct {
	server *server
}

// NewBeanstalkd measures the beanstalkd in the PATH.
func NewBeanstalkd() *Beanstalkd { return &Beanstalkd{} }

// Name is what it is called in tables.
func (b *Beanstalkd) Name() string { return "beanstalkd" }

// Options of the server and the clients.
func (b *Beanstalkd) Options() []Option { return beanstalkdOptions }

// Variants of the workers.
func (b *Beanstalkd) Variants() []int { return []int{1, 2, 4} }

// Start starts the server.
func (b *Beanstalkd) Start(ctx context.Context, dir string) error {
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		return fmt.Errorf("no beanstalkd, Debian's package of that name has it: %w", err)
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "beanstalkd")
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b.server, err = startServer(ctx, dir, addr, exec.Command(path, "-l", host, "-p", port, "-b", dir, "-f", "1000"))
	return err
}

// Stop ends the server.
func (b *Beanstalkd) Stop() {
	b.server.stop()
	b.server = nil
}

// Processes is one.
func (b *Beanstalkd) Processes() map[string]int { return map[string]int{"beanstalkd": b.server.pid()} }

// Due is so many whole seconds from now.
func (b *Beanstalkd) Due(now time.Time, delay time.Duration) time.Time {
	return now.Add(max(delay.Round(time.Second), time.Second))
}

// bsPusher puts in turn on its connections.
type bsPusher struct {
	conns []*bsPipe
	next  int
}

// NewPusher puts on connections of its own.
func (b *Beanstalkd) NewPusher(ctx context.Context, mode Mode) (Pusher, error) {
	connections, each := 1, inFlight
	if mode != Single {
		connections, each = bsConnections, bsBatch
	}
	p := &bsPusher{}
	for range connections {
		way, err := newBSPipe(ctx, b.server.addr, each)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.conns = append(p.conns, way)
	}
	return p, nil
}

func (p *bsPusher) Push(ctx context.Context, body []byte, due time.Time) error {
	p.next++
	seconds := int(time.Until(due).Round(time.Second) / time.Second)
	return p.conns[p.next%len(p.conns)].put(ctx, body, seconds)
}

func (p *bsPusher) Flush(ctx context.Context) error {
	for _, way := range p.conns {
		if err := way.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *bsPusher) Close() {
	for _, way := range p.conns {
		way.close()
	}
}

// Work reserves on n connections.
func (b *Beanstalkd) Work(ctx context.Context, n int, take func([]byte)) (func(), error) {
	var workers []*bsWorker
	var all sync.WaitGroup
	stop := func() {
		for _, w := range workers {
			w.end()
		}
		all.Wait()
	}
	for range n {
		w, err := newBSWorker(ctx, b.server.addr, take)
		if err != nil {
			stop()
			return nil, err
		}
		workers = append(workers, w)
		all.Go(w.run)
	}
	return stop, nil
}

// Stored asks the server.
func (b *Beanstalkd) Stored(ctx context.Context) (int, error) {
	stats, err := bsStats(ctx, b.server.addr)
	if err != nil {
		return 0, err
	}
	stored := 0
	for line := range strings.Lines(stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried":
			n, err := strconv.Atoi(value)
			if err != nil {
				return 0, fmt.Errorf("read stats: %w", err)
			}
			stored += n
		}
	}
	return stored, nil
}

// Memory is that of the process: there is no better figure.
func (b *Beanstalkd) Memory(context.Context) (int64, error) { return b.server.rss() }
