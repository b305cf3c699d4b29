// Compare puts the same work on dqbridge and on its peers, in turn in one run, and prints what it took.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dqbridge/dqbridge/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "compare:", err) // the exit code says it too
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	all, err := o.peers()
	if err != nil {
		return err
	}
	if o.explain {
		return report.Options(os.Stdout, all)
	}
	works, err := o.works()
	if err != nil {
		return err
	}
	c := &comparison{options: o, peers: all, works: works, now: time.Now, log: os.Stderr}
	var failure error
	if len(o.from) > 0 {
		failure = c.read(o.from)
	} else {
		failure = c.run(ctx)
	}
	if err := c.publish(os.Stdout); err != nil {
		return errors.Join(failure, err)
	}
	return failure
}
