package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// stats is the command `dqbridge stats`.
type stats struct {
	operation
	watch    bool
	interval time.Duration
}

const statsLong = `Show how many jobs there are in each state, when the delayed ones become due, which replicas run, and how the Redis is set
up. With --watch it does so again and again until Ctrl-C, on a terminal in place.`

func newStats(env Env) *cobra.Command {
	s := &stats{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "stats", Short: "show how many jobs there are, when they are due, and which replicas run", Long: statsLong,
		Example: "  dqbridge stats\n  dqbridge stats --watch --interval 5s\n  dqbridge stats --json | jq .data.dead",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.interval <= 0 {
				return usagef("--interval %v: want more than 0", s.interval)
			}
			return s.run(cmd.Context())
		},
	}
	s.addFlags(cmd)
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "show them again every --interval")
	cmd.Flags().DurationVar(&s.interval, "interval", time.Second, "time between two")
	return cmd
}

func (s *stats) run(ctx context.Context) error {
	nc, err := s.open()
	if err != nil {
		return err
	}
	defer nc.Close()
	bridge := s.client(nc)
	if err := s.show(ctx, bridge, true); err != nil || !s.watch {
		return err
	}
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if s.env.Terminal {
				s.note("") // the prompt comes on a line of its own, below the ^C
			}
			return nil
		case <-ticker.C:
			// A bridge that is away comes back: only who looks once gets an error for it.
			if err := s.show(ctx, bridge, false); err != nil && ctx.Err() == nil {
				s.note("%s  %v", s.env.Now().Format("15:04:05"), err)
			}
		}
	}
}

// show asks once and prints, over what was printed before where that is on a terminal.
func (s *stats) show(ctx context.Context, bridge client.Client, first bool) error {
	var data client.Stats
	if err := s.request(ctx, bridge, "stats", struct{}{}, &data); err != nil || s.json {
		return err
	}
	text := s.text(&data)
	switch inPlace := s.watch && s.env.Terminal; {
	case inPlace && first:
		text = clearScreen + cursorHome + text
	case inPlace:
		text = cursorHome + strings.ReplaceAll(text, "\n", clearLine+"\n") + clearBelow
	case s.watch:
		text = s.env.Now().Format(time.RFC3339) + "\n" + text + "\n"
	}
	_, err := io.WriteString(s.env.Stdout, text)
	return err
}

// Sequences that redraw without a flicker: nothing is blank in between.
const (
	clearScreen = "\x1b[2J"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

func (s *stats) text(d *client.Stats) string {
	var out strings.Builder
	env := s.env
	env.Stdout = &out
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	jobs := newTable(env, column{"DELAYED", true}, column{"READY", true}, column{"INFLIGHT", true}, column{"DEAD", true}, column{"TOPICS", true})
	due := newTable(env, column{"DUE WITHIN 1m", true}, column{"5m", true}, column{"1h", true}, column{"1d", true}, column{"LATER", true})
	replicas := newTable(env, column{title: "REPLICA"}, column{title: "HOST"}, column{title: "VERSION"}, column{title: "STARTED"})
	var running [][]string
	for _, r := range d.Replicas {
		started := r.StartedAt
		if at, err := time.Parse(time.RFC3339Nano, started); err == nil {
			started = env.moment(at)
		}
		running = append(running, []string{r.ID, r.Host, r.Version, started})
	}
	for _, part := range []struct {
		table *table
		rows  [][]string
	}{
		{jobs, [][]string{{number(d.Delayed), number(d.Ready), number(d.InFlight), number(d.Dead), number(d.Topics)}}},
		{due, [][]string{{number(d.Due.Minute), number(d.Due.FiveMinutes), number(d.Due.Hour), number(d.Due.Day), number(d.Due.Later)}}},
		{replicas, running},
	} {
		_ = part.table.print(part.rows) // a strings.Builder takes all
		out.WriteString("\n")
	}
	return out.String() + redisLine(&d.Redis) + "\n"
}

func redisLine(r *client.Redis) string {
	limit := "no limit"
	if r.MaxMemory > 0 {
		limit = size(r.MaxMemory)
	}
	aof := "off"
	if r.AOFEnabled {
		aof = "on"
	}
	return plain(fmt.Sprintf("Redis %s: memory %s of %s (%s), append-only file %s, %s",
		r.Version, size(r.UsedMemory), limit, r.MaxMemoryPolicy, aof, plural(int(r.ConnectedReplicas), "replica")))
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const step = 1024
	value, units := float64(bytes), "KMGTP"
	if bytes < step {
		return fmt.Sprintf("%d B", bytes)
	}
	unit := -1
	for value >= step && unit < len(units)-1 {
		value /= step
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
