package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/cli"
)

const (
	// collectAt is how far the heap grows between collections, in percent of what is in use: the bridge keeps a few MB
	// and leaves a few kB behind with each job, so Go's own 100 would collect fifty times a second under load.
	collectAt = 400
	// heapAim is the size, bytes, from which on memory is collected more often instead. The bounds of the bridge's
	// queues leave room below it.
	heapAim = 192 << 20
)

// paceCollector sets how often memory is collected, where GOGC and GOMEMLIMIT do not.
func paceCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapAim)
	}
}

// leaveProcessors uses half of the processors, where GOMAXPROCS does not say how many: what the bridge does for a job takes
// less time than what Redis does for it on one, and with more of them its goroutines wake threads up instead of waiting for
// each other. A cluster of several masters keeps more of them busy; so many machines have more than two.
func leaveProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
	}
}

// serve runs the bridge until ctx ends.
func serve(ctx context.Context, cfg config.Config, env cli.Env, log zerolog.Logger) error {
	paceCollector()
	store, err := openStore(cfg, log)
	if err != nil {
		return err
	}
	link, err := bridge.Connect(bridge.LinkOptions{
		URL: cfg.NATS.URL, Creds: cfg.NATS.Creds, NKey: cfg.NATS.NKey, CA: cfg.NATS.CA, Cert: cfg.NATS.Cert, Key: cfg.NATS.Key,
		Log: log, Now: env.Now,
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	tracer, sendTraces, err := startTraces(ctx, cfg.ShutdownTimeout+bridge.CommitTimeout, env, log)
	if err != nil {
		link.Close()
		return errors.Join(err, store.Close())
	}
	defer sendTraces()
	log.Info().Str("version", version()).Str("nats", config.Redact(cfg.NATS.URL)).Str("redis", config.Redact(cfg.Redis.URL)).
		Msg("bridge starts")
	return bridge.New(link, store, bridge.Options{
		Prefix: cfg.Prefix, Version: version(), Tick: cfg.Tick, MaxDelay: cfg.MaxDelay, MaxBody: cfg.MaxBody,
		PushStream: cfg.NATS.PushStream, DefaultTTR: cfg.DefaultTTR, MaxAttempts: cfg.MaxAttempts, MaxInflight: cfg.MaxInflight,
		DeadRetention: cfg.Dead.Retention, DeadMax: cfg.Dead.Max,
		ShutdownTimeout: cfg.ShutdownTimeout, HTTPAddr: cfg.HTTP.Addr, HTTPToken: cfg.HTTP.Token, Profiles: cfg.HTTP.Pprof, Now: env.Now,
		Tracer: tracer,
	}, log).Run(ctx)
}

// openStore makes the store's client; it does not connect yet.
func openStore(cfg config.Config, log zerolog.Logger) (*delay.Store, error) {
	client, err := delay.Dial(delay.RedisOptions{
		URL: cfg.Redis.URL, CA: cfg.Redis.CA, Cert: cfg.Redis.Cert, Key: cfg.Redis.Key, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return delay.NewStore(client, delay.StoreOptions{
		Prefix: cfg.Prefix, Buckets: cfg.Buckets, MaxDelay: cfg.MaxDelay, WaitReplicas: cfg.Redis.WaitReplicas,
	}), nil
}
