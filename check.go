package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/cli"
)

const checkLong = `Read the store in short steps, while everything runs, and report what should not be: an id in two states or in none,
traces of an id without a record, a list that nobody would look at, a counter that is off, a record of an unknown format.
With --repair it is mended; no job is ever dropped. Redis is found by the variables of serve (DQ_REDIS_URL, DQ_PREFIX, …).

Exit code 0: nothing to report, or all of it mended. 1: something is left. Stale entries of lists are harmless, and
counters that change while they are counted say nothing: neither counts as left.`

// newCheck is the one client command that goes to Redis itself.
func newCheck(env cli.Env) *cobra.Command {
	var repair, asJSON bool
	cmd := &cobra.Command{
		Use: "check", Short: "check the store, and repair it", Long: checkLong, Args: cobra.NoArgs,
		Example: "  dqbridge check --repair",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load()
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			return check(cmd.Context(), cfg, env, repair, asJSON)
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "mend what is found")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each finding as a line of JSON")
	return cmd
}

func check(ctx context.Context, cfg config.Config, env cli.Env, repair, asJSON bool) error {
	store, err := openStore(cfg, newLogger(cfg.Log, env.Stderr))
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing was left unsent
	if err = store.Open(ctx); err != nil {
		return err
	}
	found, left := 0, 0
	jobs, err := delay.NewChecker(store, repair, func(f delay.Finding) {
		found++
		if !f.Mended && f.Kind != delay.FoundStale && f.Kind != delay.FoundBusy {
			left++
		}
		printFinding(env, f, asJSON)
	}).Run(ctx)
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = fmt.Fprintf(env.Stdout, "%d jobs, %d findings, %d left\n", jobs, found, left)
	}
	if left > 0 {
		return errors.Join(err, fmt.Errorf("%d findings are left", left))
	}
	return err
}

func printFinding(env cli.Env, f delay.Finding, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(env.Stdout).Encode(f) // a reader that went away is no reason to stop a repair
		return
	}
	mended := ""
	if f.Mended {
		mended = "  mended"
	}
	_, _ = fmt.Fprintf(env.Stdout, "%-9s bucket %d  id %q  topic %q  %s%s\n", f.Kind, f.Bucket, f.ID, f.Topic, f.Detail, mended)
}
