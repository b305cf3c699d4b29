package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// settle is one of the commands that settle jobs by their ids.
type settle struct {
	operation
	verb   string
	delay  string
	reason string
	// outcome reads a good answer about id and says it in words.
	outcome func(id string, answer client.Envelope) (string, error)
}

const finishLong = `Finish jobs by their ids, in whatever state they are: they are removed. One that is not there is no error, so it can be
repeated.`

func newFinish(env Env) *cobra.Command {
	s := &settle{operation: operation{connection: connection{env: env}}, verb: "finish", outcome: finishedOutcome}
	return s.command(&cobra.Command{
		Short: "remove jobs that are done", Long: finishLong,
		Example: "  dqbridge finish 01a22820-f1fb-774e-95ac-72e98346d3a3\n  dqbridge finish report-1 'report 2' -- -odd-",
	})
}

func finishedOutcome(id string, answer client.Envelope) (string, error) {
	var data struct {
		Finished int `json:"finished"`
	}
	if err := answer.Into(&data); err != nil {
		return "", err
	}
	if data.Finished == 0 {
		return plain(id) + " was not there", nil
	}
	return "finished " + plain(id), nil
}

func newTouch(env Env) *cobra.Command {
	s := &settle{operation: operation{connection: connection{env: env}}, verb: "touch"}
	s.outcome = s.changedOutcome("touched")
	return s.command(&cobra.Command{
		Short: "start the TTR of jobs in flight again",
		Long:  "Give jobs in flight more time: their time to run starts again.", Example: "  dqbridge touch report-1",
	})
}

func newRelease(env Env) *cobra.Command {
	s := &settle{operation: operation{connection: connection{env: env}}, verb: "release"}
	s.outcome = s.changedOutcome("released")
	cmd := s.command(&cobra.Command{
		Short:   "give jobs in flight back",
		Long:    "Give jobs in flight back: they are delivered again, at once or after --delay. Without it a job's own backoff counts.",
		Example: "  dqbridge release report-1\n  dqbridge release report-1 report-2 --delay 1m30s",
	})
	cmd.Flags().StringVar(&s.delay, "delay", "", "`delay` until they are due again")
	return cmd
}

func newBury(env Env) *cobra.Command {
	s := &settle{operation: operation{connection: connection{env: env}}, verb: "bury"}
	s.outcome = s.changedOutcome("buried")
	cmd := s.command(&cobra.Command{
		Short:   "declare jobs dead",
		Long:    "Declare jobs dead, in whatever state they are. They are kept for a while, and kick makes them ready again.",
		Example: "  dqbridge bury report-1 --reason 'no such customer'",
	})
	cmd.Flags().StringVar(&s.reason, "reason", "", "why, kept with the jobs")
	return cmd
}

// changedOutcome says where the job is now.
func (s *settle) changedOutcome(done string) func(string, client.Envelope) (string, error) {
	return func(id string, answer client.Envelope) (string, error) {
		var data client.Changed
		if err := answer.Into(&data); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s%s", done, plain(id), s.whatNow(data)), nil
	}
}

// whatNow is the state of a job and what is ahead of it.
func (o *operation) whatNow(data client.Changed) string {
	now := o.env.Now()
	switch data.State {
	case "inflight":
		return fmt.Sprintf(", its TTR ends %s (%s)", stamp(data.DeadlineAt, now), relative(data.DeadlineAt, now))
	case "delayed":
		return ", " + due(data.DueAt, now)
	case "dead":
		return ""
	default:
		return ", it is " + plain(data.State)
	}
}

// command completes what all of them have in common.
func (s *settle) command(cmd *cobra.Command) *cobra.Command {
	cmd.Use, cmd.Args, cmd.ValidArgsFunction = s.verb+" ID...", arguments(1, many), cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) }
	s.addFlags(cmd)
	return cmd
}

func (s *settle) run(ctx context.Context, ids []string) error {
	var wait client.Value
	if err := readDelay("--delay", s.delay, &wait); err != nil {
		return err
	}
	var items []client.Settling
	for _, id := range ids {
		items = append(items, client.Settling{ID: id, Delay: wait, Reason: s.reason})
	}
	return s.with(func(bridge client.Client) error {
		failed := 0
		for batch := range slices.Chunk(items, client.MaxBatch) {
			n, err := s.batch(ctx, bridge, batch)
			if err != nil {
				return err
			}
			failed += n
		}
		if failed > 0 {
			return fmt.Errorf("%s: %d of %d failed", s.verb, failed, len(ids))
		}
		return nil
	})
}

// batch asks for one request's worth of jobs and gives how many failed. Of a single one its error is the error.
func (s *settle) batch(ctx context.Context, bridge client.Client, items []client.Settling) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answers, reply, err := bridge.Settle(ctx, s.verb, items)
	if printErr := s.printReply(reply); printErr != nil {
		return 0, printErr
	}
	if err != nil {
		return 0, s.explain(err)
	}
	failed := 0
	for i, answer := range answers {
		text, refused := s.outcome(items[i].ID, answer)
		switch {
		case refused == nil:
			err = s.say("%s", text)
		case len(items) == 1:
			err = refused
		default:
			failed++
			s.note("%v", refused)
		}
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
}
