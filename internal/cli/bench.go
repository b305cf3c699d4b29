package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/bench"
)

const benchLong = `Put load on a running bridge and check what comes back: lost, early or twice is an error.

  push      confirmed pushes a second; through a stream (DQ_PUSH_STREAM): until the bridge holds them
  drain     jobs that are all due at one moment (--max-delay from the start), until all are taken and finished
  steady    push, deliver and finish all at once, at --rate, or as fast as it goes with --outstanding jobs under way
  lateness  jobs at --rate with delays between --min-delay and --max-delay: how late each one comes
  memory    bytes a pending job takes in Redis: what others store meanwhile is counted as well

The jobs go to topics of this run alone, bench-…, and what is left of them at the end is removed, also after Ctrl-C.
Lateness is by the clock of this machine: it means something where that and the clock of Redis agree.`

// benchRun is the command `dqbridge bench`.
type benchRun struct {
	connection
	bench.Options

	json bool
}

type workload func(context.Context, bench.Options) (bench.Result, error)

func workloads() map[string]workload {
	return map[string]workload{
		"push": bench.Push, "drain": bench.Drain, "steady": bench.Steady, "lateness": bench.Lateness, "memory": bench.Memory,
	}
}

func newBench(env Env) *cobra.Command {
	b := &benchRun{connection: connection{env: env}, Options: bench.Options{Now: env.Now}}
	cmd := &cobra.Command{
		Use: "bench push|drain|steady|lateness|memory", Short: "measure a running bridge", Long: benchLong,
		Example: "  dqbridge bench lateness --rate 500 --jobs 10000 --min-delay 1s --max-delay 5s\n" +
			"  dqbridge bench steady --batch 100 --in-flight 4 --jobs 200000 --max-delay 1s --workers 2",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"push", "drain", "steady", "lateness", "memory"},
		RunE:      func(cmd *cobra.Command, args []string) error { return b.run(cmd.Context(), args[0]) },
	}
	b.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&b.Jobs, "jobs", 20_000, "jobs in all")
	f.IntVar(&b.Size, "size", 100, "`bytes` of a body")
	f.IntVar(&b.InFlight, "in-flight", 64, "pushes that wait for their answers at once")
	f.IntVar(&b.Batch, "batch", 1, "jobs in one push")
	f.IntVar(&b.Topics, "topics", 1, "topics that the jobs are spread over")
	f.IntVar(&b.Workers, "workers", 1, "connections that take jobs")
	f.Float64Var(&b.Rate, "rate", 0, "jobs a second; 0: as fast as it goes")
	f.IntVar(&b.Outstanding, "outstanding", 50_000, "jobs under way in steady, at most")
	f.DurationVar(&b.MinDelay, "min-delay", time.Second, "shortest delay")
	f.DurationVar(&b.MaxDelay, "max-delay", 5*time.Second, "longest delay")
	f.DurationVar(&b.TTR, "ttr", time.Minute, "time to run of the jobs")
	f.DurationVar(&b.Patience, "patience", 15*time.Second, "how long nothing may come before what is missing counts as lost")
	f.BoolVar(&b.json, "json", false, "print the result as JSON")
	return cmd
}

func (b *benchRun) run(ctx context.Context, name string) error {
	if name == "drain" {
		b.MinDelay = 0 // all are due at one moment
	}
	if err := b.Check(); err != nil {
		return usagef("%w", err)
	}
	first, err := b.open() // to learn the prefix, and to fail early
	if err != nil {
		return err
	}
	first.Close()
	b.Prefix = b.prefix
	b.Topic = fmt.Sprintf("bench-%d-%x", b.env.Now().UnixMilli(), rand.Uint32())
	b.Connect = func() (*nats.Conn, error) { return b.open() }
	b.Progress = &bench.Progress{}
	stop := b.show(ctx, name)
	r, err := workloads()[name](ctx, b.Options)
	stop()
	if err != nil {
		return b.explain(err)
	}
	if err := b.print(r); err != nil {
		return err
	}
	return r.Faults()
}

// show keeps a line about how far it has come, where somebody sees it, until the function it gives is called.
func (b *benchRun) show(ctx context.Context, name string) func() {
	if !b.env.Interactive {
		return func() {}
	}
	const every = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(every)
		defer again.Stop()
		for {
			_, _ = fmt.Fprint(b.env.Stderr, "\r"+b.progress(name)+"\x1b[K") // a terminal that is gone is no reason to stop
			select {
			case <-again.C:
			case <-ctx.Done():
				_, _ = fmt.Fprint(b.env.Stderr, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// progress is that line: a bar of what was done of all, and the counts.
func (b *benchRun) progress(name string) string {
	const width = 30
	pushed, delivered := b.Progress.Counts()
	done, all := pushed, int64(b.Jobs)
	text := fmt.Sprintf("pushed %d of %d", pushed, all)
	if name != "push" && name != "memory" {
		done, all = pushed+delivered, 2*all
		text += fmt.Sprintf(", delivered %d", delivered)
	}
	full := int(min(done*width/all, width))
	return fmt.Sprintf("%s [%s%s] %s", name, strings.Repeat("#", full), strings.Repeat(".", width-full), text)
}

func (b *benchRun) print(r bench.Result) error {
	if b.json {
		return json.NewEncoder(b.env.Stdout).Encode(r)
	}
	var text strings.Builder
	if r.Workload == "lateness" {
		fmt.Fprintf(&text, "%s: %d jobs, pushed at %.0f a second\n", r.Workload, r.Jobs, r.PushedPerSecond)
	} else {
		fmt.Fprintf(&text, "%s: %d jobs in %.3f s, %.0f a second\n", r.Workload, r.Jobs, r.Seconds, r.PerSecond)
	}
	switch r.Workload {
	case "push":
	case "memory":
		fmt.Fprintf(&text, "memory: %.0f bytes a job\n", r.BytesPerJob)
	default:
		fmt.Fprintf(&text, "lateness: min %.2f, p50 %.2f, p99 %.2f, max %.2f ms\nlost %d, early %d, twice %d\n",
			r.Min, r.P50, r.P99, r.Max, r.Lost, r.Early, r.Twice)
	}
	_, err := io.WriteString(b.env.Stdout, text.String())
	return err
}
