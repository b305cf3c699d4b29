package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/internal/cli"
	"github.com/dqbridge/dqbridge/internal/tracing"
)

const (
	// lastTraces is how long the traces that were not sent yet have at the end, at least.
	lastTraces = 500 * time.Millisecond
	// lossTold is how often it is logged that traces are lost.
	lossTold = 10 * time.Second
)

// startTraces gives a tracer, nil where the environment wants none, and what sends the last traces: within end from the
// moment on at which ctx ends.
func startTraces(ctx context.Context, end time.Duration, env cli.Env, log zerolog.Logger) (bridge.Tracer, func(), error) {
	tracer, err := tracing.New(ctx, tracing.Options{
		Version: version(), Getenv: env.Getenv, Log: log, Loud: rate.NewLimiter(rate.Every(lossTold), 1),
	})
	if err != nil || tracer == nil {
		return nil, func() {}, err
	}
	var stopped atomic.Pointer[time.Time]
	forget := context.AfterFunc(ctx, func() {
		at := env.Now()
		stopped.Store(&at)
	})
	return tracer, func() {
		forget()
		left := lastTraces
		if at := stopped.Load(); at != nil {
			left = max(left, end-env.Now().Sub(*at))
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
		defer cancel()
		if err := tracer.Stop(last); err != nil {
			log.Warn().Err(err).Msg("last traces are lost")
		}
	}, nil
}
