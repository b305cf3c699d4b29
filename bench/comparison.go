package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dqbridge/dqbridge/bench/load"
	"github.com/dqbridge/dqbridge/bench/peers"
	"github.com/dqbridge/dqbridge/bench/report"
)

// within is how long one measurement may take, warm-up and preload included.
const within = 5 * time.Minute

// comparison measures all peers in turn.
type comparison struct {
	*options
	peers   []peers.Peer
	works   []load.Work
	now     func() time.Time
	log     io.Writer
	figures []load.Figure
	failed  []error
}

// run measures; what fails is told at the end, and the rest goes on.
func (c *comparison) run(ctx context.Context) error {
	if c.sizes.Pending > 0 {
		dir, err := os.MkdirTemp(c.dir, "compare")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of temporary files
		stop, err := c.preload(ctx, dir)
		defer stop()
		if err != nil {
			return err
		}
	}
	for _, work := range c.works {
		for round := range c.rounds {
			for _, peer := range c.peers {
				if err := c.variantsOf(ctx, work, peer, round+1); err != nil {
					return err
				}
			}
		}
	}
	return errors.Join(c.failed...)
}

// read takes the figures of earlier runs.
func (c *comparison) read(files []string) error {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var figures []load.Figure
		if err := json.Unmarshal(data, &figures); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		c.figures = append(c.figures, figures...)
	}
	return nil
}

// preload starts all peers at once and fills them.
func (c *comparison) preload(ctx context.Context, dir string) (func(), error) {
	stop := func() {
		for _, peer := range c.peers {
			peer.Stop()
		}
	}
	for _, peer := range c.peers {
		c.tell("%s: %d jobs that stay pending", peer.Name(), c.sizes.Pending)
		own, err := os.MkdirTemp(dir, "peer")
		if err != nil {
			return stop, err
		}
		if err := peer.Start(ctx, own); err != nil {
			return stop, err
		}
		if err := c.runOf(peer, 1).Preload(ctx); err != nil {
			return stop, fmt.Errorf("%s: preload: %w", peer.Name(), err)
		}
	}
	return stop, nil
}

func (c *comparison) runOf(peer peers.Peer, workers int) *load.Run {
	return &load.Run{Peer: peer, Sizes: c.sizes, Now: c.now, Workers: workers}
}

func (c *comparison) variantsOf(ctx context.Context, work load.Work, peer peers.Peer, round int) error {
	numbers, err := c.variants(work, peer)
	if err != nil {
		return err
	}
	for _, workers := range numbers {
		f, err := c.measure(ctx, work, c.runOf(peer, workers))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, load.ErrUnknown) {
			continue
		}
		f.Work, f.Peer, f.Round = work.Name, peer.Name(), round
		if err != nil {
			err = fmt.Errorf("%s, %s, round %d: %w", f.Work, f.Peer, round, err)
			c.tell("%v", err)
			c.failed = append(c.failed, err)
			continue
		}
		c.progress(f)
		c.figures = append(c.figures, f)
	}
	return nil
}

// measure does one workload once, on servers that are fresh unless jobs are pending throughout.
func (c *comparison) measure(ctx context.Context, work load.Work, r *load.Run) (load.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if c.sizes.Pending == 0 {
		dir, err := os.MkdirTemp(c.dir, "compare")
		if err != nil {
			return load.Figure{}, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of temporary files
		defer r.Peer.Stop()
		if err := r.Peer.Start(ctx, dir); err != nil {
			return load.Figure{}, err
		}
	}
	return work.Do(ctx, r)
}

// tell writes a line on how it goes.
func (c *comparison) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...) // who closed it does not want to know
}

// progress tells one figure in a line.
func (c *comparison) progress(f load.Figure) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s %d %-10s", f.Work, f.Round, f.Peer)
	if f.Workers > 0 {
		fmt.Fprintf(&b, " %d workers", f.Workers)
	}
	if f.Bytes != 0 {
		fmt.Fprintf(&b, " %.0f bytes a job", f.Bytes)
	} else {
		fmt.Fprintf(&b, " %.0f jobs/s, %.1f µs, others %.0f%%", f.PerSecond, f.CPU, 100*f.Others)
	}
	if f.Lateness != nil {
		fmt.Fprintf(&b, ", late p50 %.2f p99 %.2f ms", f.Lateness.P50, f.Lateness.P99)
	}
	c.tell("%s, lost %d, twice %d, early %d", &b, f.Lost, f.Twice, f.Early)
}

// publish prints the table and writes the files that were asked for.
func (c *comparison) publish(w io.Writer) error {
	if len(c.figures) == 0 {
		return nil
	}
	err := report.Table(w, c.figures)
	if c.json != "" {
		data, failure := json.MarshalIndent(c.figures, "", " ")
		if failure == nil {
			failure = os.WriteFile(c.json, append(data, '\n'), 0o644) //nolint:gosec // figures are for everybody
		}
		err = errors.Join(err, failure)
	}
	if c.svg != "" {
		err = errors.Join(err, report.Pictures(c.svg, c.figures))
	}
	return err
}
