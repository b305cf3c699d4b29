package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// push is the command `dqbridge push`.
type push struct {
	connection
	job     client.Job
	delay   string
	at      string
	ttr     string
	expires string
	limit   int
	backoff []string
	replace bool
	headers []string
	json    bool
}

const pushLong = `Store one job. It is delivered on <prefix>.ready.<TOPIC> when it is due, to the workers that listen there.

BODY is sent as JSON where it is JSON, else as a JSON string; with --raw it is sent as it is, any bytes. "-" reads it
from standard input. Delays are seconds ("90", "0.25") or durations ("1m30s", "250ms").`

const pushExample = `  dqbridge push mail '{"to":"ann@example.org"}' --delay 30s
  dqbridge push report --at 2030-01-01T08:00:00Z --id report-2030 --replace
  dqbridge push images - --raw --ttr 10m < picture.png`

func newPush(env Env) *cobra.Command {
	p := &push{connection: connection{env: env}}
	cmd := &cobra.Command{
		Use: "push TOPIC [BODY]", Short: "store one job", Long: pushLong, Example: pushExample, ValidArgsFunction: p.completeTopic,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return fmt.Errorf("push wants TOPIC [BODY], got %d arguments (quote a body with spaces)", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.read(cmd, args); err != nil {
				return err
			}
			return p.run(cmd.Context())
		},
	}
	p.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&p.delay, "delay", "", "`delay` until the job is due")
	flags.StringVar(&p.at, "at", "", "the `moment` it is due instead: RFC 3339, or Unix seconds")
	flags.StringVar(&p.ttr, "ttr", "", "not finished so long after its delivery, it is delivered again; 0: never")
	flags.StringVar(&p.job.ID, "id", "", "id of the job; a push of an id that is still stored changes nothing")
	flags.IntVar(&p.limit, "max-attempts", 0, "it is dead after so many deliveries; 0: no limit")
	flags.StringSliceVar(&p.backoff, "backoff", nil, "`delays` before the 2nd, 3rd, ... delivery, the last repeats")
	flags.StringVar(&p.expires, "expires", "", "dead where it could not be delivered so long after it was due")
	flags.BoolVar(&p.replace, "replace", false, "replace a stored job of this id")
	flags.StringArrayVarP(&p.headers, "header", "H", nil, "NATS header `name=value` for the worker, may be repeated")
	flags.BoolVar(&p.job.Raw, "raw", false, "send the body as it is")
	flags.BoolVar(&p.json, "json", false, "print the bridge's reply as it is")
	return cmd
}

func (p *push) run(ctx context.Context) error {
	nc, err := p.open(nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	pushed, reply, err := p.client(nc).Push(ctx, p.job)
	if p.json && reply.Raw != nil {
		if _, writeErr := fmt.Fprintf(p.env.Stdout, "%s\n", reply.Raw); writeErr != nil {
			return writeErr
		}
	}
	if err != nil {
		return p.explain(err)
	}
	if p.json {
		return nil
	}
	_, err = io.WriteString(p.env.Stdout, outcome(pushed, p.env.Now())+"\n")
	return err
}

// outcome says in words what became of a push.
func outcome(p client.Pushed, now time.Time) string {
	switch {
	case p.Stream != "":
		return fmt.Sprintf("stored as message %d of stream %s, from where the bridge takes it", p.Seq, p.Stream)
	case p.Replaced:
		return fmt.Sprintf("replaced %s, %s", p.ID, due(p.DueAt, now))
	case p.Duplicate && p.State != "":
		return fmt.Sprintf("already stored: %s is %s, %s", p.ID, p.State, due(p.DueAt, now))
	case p.Duplicate:
		return fmt.Sprintf("already stored: %s, %s", p.ID, due(p.DueAt, now))
	default:
		return fmt.Sprintf("pushed %s, %s", p.ID, due(p.DueAt, now))
	}
}

func due(at, now time.Time) string {
	left := at.Sub(now)
	step := time.Second
	switch {
	case left <= 0:
		return "due now"
	case left < time.Second:
		step = time.Millisecond
	case left < time.Minute:
		step = 100 * time.Millisecond
	}
	in := period(left.Round(step))
	if left > 48*time.Hour {
		in = coarse(left)
	}
	return fmt.Sprintf("due %s (in %s)", stamp(at, now), in)
}
