package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/internal/cli"
	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/dev"
)

// devRun is one `dqbridge dev`: the bridge and the servers it needs in one process.
type devRun struct {
	env      cli.Env
	dir      string
	natsAddr string
	httpAddr string
	exit     bool
}

const devLong = `Run the bridge with servers of its own, and show what it does: nothing has to be installed or configured.

It starts a NATS server with JetStream inside this process, and a redis-server or valkey-server from the PATH as a child
that keeps its data in --dir; where none is installed, jobs are kept in memory and nothing survives the end. A short
demonstration follows, then it serves until Ctrl-C. DQ_ variables count as in serve, but for the servers' addresses.`

func newDev(env cli.Env) *cobra.Command {
	d := &devRun{env: env}
	cmd := &cobra.Command{
		Use: "dev", Short: "run the bridge with its own NATS and Redis, and a demonstration", Long: devLong,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load()
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			if cmd.Flags().Changed("http-addr") {
				cfg.HTTP.Addr = d.httpAddr
			}
			return d.run(cmd.Context(), cfg, newLogger(cfg.Log, env.Stderr))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.dir, "dir", "./data", "`directory` of the data")
	flags.StringVar(&d.natsAddr, "nats-addr", "127.0.0.1:4222", "`address` of the NATS server; port 0 takes a free one")
	flags.StringVar(&d.httpAddr, "http-addr", "127.0.0.1:8080", "`address` of HTTP; port 0 takes a free one, empty: off")
	flags.BoolVar(&d.exit, "exit", false, "end after the demonstration, with exit code 1 where it failed")
	return cmd
}

// Why a dev ends that nobody asked to.
var (
	errBridgeEnded = errors.New("the bridge ended by itself")
	errRedisEnded  = errors.New("the Redis server of this dev ended by itself: redis.log in --dir says why")
)

// run holds the order: the servers start first and stop last, the bridge runs between, and what the user sees inside.
func (d *devRun) run(ctx context.Context, cfg config.Config, log zerolog.Logger) error {
	if cfg.HTTP.Addr != "" {
		if err := dev.CheckFree(cfg.HTTP.Addr, "--http-addr"); err != nil {
			return err
		}
	}
	servers, err := dev.Start(ctx, dev.Options{Dir: d.dir, NATSAddr: d.natsAddr, Log: log})
	if err != nil {
		return err
	}
	defer servers.Stop()
	cfg.NATS = config.NATS{URL: servers.NATSURL, PushStream: cfg.NATS.PushStream}
	cfg.Redis = config.Redis{URL: servers.RedisURL}

	ctx, stop := context.WithCancelCause(ctx)
	bridge := make(chan error, 1)
	go func() {
		bridge <- serve(ctx, cfg, d.env, log)
		stop(errBridgeEnded)
	}()
	go func() {
		select {
		case <-servers.Gone():
			stop(errRedisEnded)
		case <-ctx.Done():
		}
	}()
	err = d.present(ctx, servers, cfg)
	cause := context.Cause(ctx) // before our own stop
	stop(nil)
	return d.result(cause, err, <-bridge)
}

// result picks the error to report: what came first, not what followed from it.
func (d *devRun) result(cause, presented, served error) error {
	switch {
	case served != nil:
		return served
	case errors.Is(cause, errRedisEnded), errors.Is(cause, errBridgeEnded):
		return cause
	case cause != nil && !d.exit: // Ctrl-C, whenever it comes
		return nil
	default:
		return presented
	}
}

// present shows the demonstration and what to do next, and stays until ctx ends, unless --exit was given.
func (d *devRun) present(ctx context.Context, servers *dev.Servers, cfg config.Config) error {
	nc, err := nats.Connect(servers.NATSURL, nats.Name("dqbridge dev"), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to our own NATS server: %w", err)
	}
	defer nc.Close()
	if err = waitForBridge(ctx, client.New(nc, cfg.Prefix)); err != nil {
		return err
	}
	d.say("%s\n", d.whatRuns(servers, cfg))
	err = dev.Demo(ctx, nc, cfg.Prefix, d.env.Stdout, dev.DemoOptions{Now: d.env.Now})
	if err != nil {
		err = fmt.Errorf("the demonstration failed: %w", err)
	}
	if d.exit || ctx.Err() != nil {
		return err
	}
	if err != nil {
		d.say("\nThis is not as promised. %v", err)
	}
	d.say("\n%s", whatNext(servers.NATSURL, cfg.Prefix))
	<-ctx.Done()
	return nil
}

// waitForBridge asks until a bridge answers.
func waitForBridge(ctx context.Context, bridge client.Client) error {
	const limit, each = 30 * time.Second, 500 * time.Millisecond
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		ask, done := context.WithTimeout(waiting, each)
		err := bridge.Ping(ask)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-waiting.Done():
			return fmt.Errorf("the bridge does not answer: %w", err)
		}
	}
}

// say writes for the user; whom it does not reach cannot be told either.
func (d *devRun) say(format string, args ...any) {
	_, _ = fmt.Fprintf(d.env.Stdout, format+"\n", args...)
}

func (d *devRun) whatRuns(servers *dev.Servers, cfg config.Config) string {
	data := "jobs in " + d.dir
	if !servers.Persistent {
		data = "jobs in memory only, nothing survives the end"
	}
	parts := []string{"dqbridge dev runs: NATS on " + servers.NATSURL, data}
	if _, port, err := net.SplitHostPort(cfg.HTTP.Addr); err == nil && port != "0" {
		parts = append(parts, "http://"+cfg.HTTP.Addr)
	}
	return strings.Join(parts, ", ")
}

// whatNext is what to type in another terminal, complete for servers that are not where the tools look by default.
func whatNext(natsURL, prefix string) string {
	server, ours := "", ""
	if natsURL != "nats://127.0.0.1:4222" {
		server, ours = " -s "+natsURL, " --nats "+natsURL
	}
	if prefix != "dq" {
		ours += " --prefix " + prefix
	}
	return fmt.Sprintf(`Now in another terminal, a worker and a push, with the nats command line client:

  nats%[1]s reply %[3]s.ready.mail +ACK
  nats%[1]s req %[3]s.push '{"topic": "mail", "delay": 5, "body": {"to": "ann@example.org"}}'

or with dqbridge itself:

  dqbridge watch%[2]s --work mail
  dqbridge push%[2]s mail '{"to": "ann@example.org"}' --delay 5s

Ctrl-C ends it.`, server, ours, prefix)
}
