// Package dev is what `dqbridge dev` adds to the bridge: the two servers it needs, started here with nothing
// installed, and a demonstration that shows and checks the contract.
package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// Options of Start.
type Options struct {
	Dir      string // data of both servers; made where it is missing
	NATSAddr string // host:port; port 0 takes a free one
	Log      zerolog.Logger
}

// Servers are a running nats-server and a running Redis.
type Servers struct {
	NATSURL    string
	RedisURL   string
	Persistent bool // false: Redis is the stand-in in memory

	nats  *server.Server
	redis redisServer
	once  sync.Once
}

// redisServer is a real Redis or the stand-in.
type redisServer interface {
	url() string
	// gone is closed when the server ended; nil where it cannot end by itself.
	gone() <-chan struct{}
	stop()
}

// Start starts both servers and waits until they answer. They run until Stop, whatever becomes of ctx.
func Start(ctx context.Context, o Options) (*Servers, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	s := &Servers{}
	if err = s.startRedis(ctx, dir, o.Log); err != nil {
		return nil, err
	}
	s.RedisURL = s.redis.url()
	if s.nats, err = startNATS(o.NATSAddr, dir, o.Log); err != nil {
		s.redis.stop()
		return nil, err
	}
	s.NATSURL = natsURL(s.nats.Addr())
	return s, nil
}

// startRedis takes what is installed, else the stand-in.
func (s *Servers) startRedis(ctx context.Context, dir string, log zerolog.Logger) error {
	program, err := findRedis()
	if err != nil {
		log.Warn().Msg("no redis-server or valkey-server in the PATH: jobs are kept in memory, nothing survives the end")
		s.redis, err = startStandIn()
		return err
	}
	s.Persistent = true
	s.redis, err = startChild(ctx, program, dir, log)
	return err
}

// Gone is closed when Redis has ended by itself, which only a fault outside makes it do.
func (s *Servers) Gone() <-chan struct{} { return s.redis.gone() }

// Stop ends both servers, Redis with all it holds on disk. Only the first call does something.
func (s *Servers) Stop() {
	s.once.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.redis.stop()
	})
}
