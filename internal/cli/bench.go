package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/bench"
)

const benchLong = `Put load on a running bridge and check what comes back: lost, early or twice is an error.

  push      confirmed pushes a second
  drain     jobs that are all due at one moment (--max-delay from the start), until all are taken and finished
  lateness  jobs at --rate with delays between --min-delay and --max-delay: how late each one comes`

func newBench(env Env) *cobra.Command {
	c := connection{env: env}
	o := bench.Options{Now: env.Now}
	var asJSON bool
	workloads := map[string]func(context.Context, bench.Options) (bench.Result, error){
		"push": bench.Push, "drain": bench.Drain, "lateness": bench.Lateness,
	}
	cmd := &cobra.Command{
		Use: "bench push|drain|lateness", Short: "measure a running bridge", Long: benchLong,
		Example: "  dqbridge bench lateness --rate 500 --jobs 10000 --min-delay 1s --max-delay 5s",
		Args:    cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"push", "drain", "lateness"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "drain" {
				o.MinDelay = 0 // all are due at one moment
			}
			if err := o.Check(); err != nil {
				return usagef("%w", err)
			}
			first, err := c.open() // to learn the prefix, and to fail early
			if err != nil {
				return err
			}
			first.Close()
			o.Prefix = c.prefix
			o.Topic = fmt.Sprintf("bench-%d", env.Now().UnixNano())
			o.Connect = func() (*nats.Conn, error) { return c.open() }
			r, err := workloads[args[0]](cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := printResult(env, r, asJSON); err != nil {
				return err
			}
			return r.Faults()
		},
	}
	c.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Jobs, "jobs", 20_000, "jobs in all")
	f.IntVar(&o.Size, "size", 100, "`bytes` of a body")
	f.IntVar(&o.InFlight, "in-flight", 64, "pushes that wait for their answers at once")
	f.IntVar(&o.Batch, "batch", 1, "jobs in one push")
	f.IntVar(&o.Workers, "workers", 1, "connections that take jobs")
	f.Float64Var(&o.Rate, "rate", 0, "jobs a second; 0: as fast as it goes")
	f.DurationVar(&o.MinDelay, "min-delay", time.Second, "shortest delay")
	f.DurationVar(&o.MaxDelay, "max-delay", 5*time.Second, "longest delay")
	f.DurationVar(&o.TTR, "ttr", time.Minute, "time to run of the jobs")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func printResult(env Env, r bench.Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(env.Stdout).Encode(r)
	}
	_, err := fmt.Fprintf(env.Stdout, "%s: %d jobs in %.3f s, %.0f a second\n", r.Workload, r.Jobs, r.Seconds, r.PerSecond)
	if err == nil && r.Workload != "push" {
		_, err = fmt.Fprintf(env.Stdout, "lateness: min %.2f, p50 %.2f, p99 %.2f, max %.2f ms\nlost %d, early %d, twice %d\n",
			r.Min, r.P50, r.P99, r.Max, r.Lost, r.Early, r.Twice)
	}
	return err
}
