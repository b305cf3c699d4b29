package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// idRequest and topicRequest are what most verbs want.
type idRequest struct {
	ID string `json:"id"`
}

type topicRequest struct {
	Topic string `json:"topic"`
}

func newCancel(env Env) *cobra.Command {
	o := &operation{connection: connection{env: env}}
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "remove a job, and tell in which state it was",
		Long:    "Remove a job in whatever state it is, and tell in which one it was. One that is not there is no error.",
		Example: "  dqbridge cancel report-2030",
		Args:    arguments(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var data client.Changed
			if err := o.admin(cmd.Context(), "cancel", idRequest{args[0]}, &data); err != nil {
				return err
			}
			if data.State == "unknown" {
				return o.say("%s was not there", plain(args[0]))
			}
			return o.say("cancelled %s, it was %s", plain(args[0]), plain(data.State))
		},
	}
	o.addFlags(cmd)
	return cmd
}

func newRun(env Env) *cobra.Command {
	o := &operation{connection: connection{env: env}}
	cmd := &cobra.Command{
		Use: "run ID", Short: "make a job due now",
		Long:    "Make a delayed job due now. A job in flight or dead is left as it is; for a dead one there is kick.",
		Example: "  dqbridge run report-2030",
		Args:    arguments(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.move(cmd.Context(), "run", idRequest{args[0]})
		},
	}
	o.addFlags(cmd)
	return cmd
}

// move asks for a verb that gives a job another due time.
func (o *operation) move(ctx context.Context, verb string, ask any) error {
	var data client.Changed
	if err := o.admin(ctx, verb, ask, &data); err != nil {
		return err
	}
	return o.say("%s is %s, %s", plain(data.ID), plain(data.State), due(data.DueAt, o.env.Now()))
}

const rescheduleLong = `Give a delayed or ready job another due time: DELAY from now, in seconds or as a duration, or the moment --at.`

func newReschedule(env Env) *cobra.Command {
	o := &operation{connection: connection{env: env}}
	var at string
	cmd := &cobra.Command{
		Use: "reschedule ID [DELAY]", Short: "give a job another due time", Long: rescheduleLong,
		Example: "  dqbridge reschedule report-2030 10m\n  dqbridge reschedule report-2030 --at 2030-01-31T08:00:00Z",
		Args:    arguments(1, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var ask struct {
				idRequest
				Delay client.Value `json:"delay,omitempty"`
				At    client.Value `json:"at,omitempty"`
			}
			ask.ID = args[0]
			if (len(args) == 2) == (at != "") {
				return usagef("reschedule wants either DELAY or --at")
			}
			if len(args) == 2 {
				if args[1] == "" {
					return usagef("DELAY is empty")
				}
				if err := readDelay("DELAY", args[1], &ask.Delay); err != nil {
					return err
				}
			}
			if err := readMoment(at, &ask.At); err != nil {
				return err
			}
			return o.move(cmd.Context(), "reschedule", ask)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&at, "at", "", "the `moment` it is due: RFC 3339, or Unix seconds")
	return cmd
}

func newPause(env Env) *cobra.Command {
	return newSwitch(env, "pause", &cobra.Command{
		Use: "pause TOPIC", Short: "deliver nothing of a topic for now",
		Long:    "Deliver nothing of TOPIC until resume, on all replicas and across restarts. Pushes are taken as before.",
		Example: "  dqbridge pause mail",
	})
}

func newResume(env Env) *cobra.Command {
	return newSwitch(env, "resume", &cobra.Command{
		Use: "resume TOPIC", Short: "deliver a paused topic again",
		Long: "Deliver the jobs of a paused TOPIC again.", Example: "  dqbridge resume mail",
	})
}

// newSwitch completes pause or resume.
func newSwitch(env Env, verb string, cmd *cobra.Command) *cobra.Command {
	o := &operation{connection: connection{env: env}}
	cmd.Args, cmd.ValidArgsFunction = arguments(1, 1), o.completeTopic
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var data struct {
			Topic  string `json:"topic"`
			Paused bool   `json:"paused"`
		}
		if err := o.admin(cmd.Context(), verb, topicRequest{args[0]}, &data); err != nil {
			return err
		}
		if data.Paused {
			return o.say("%s is paused", plain(data.Topic))
		}
		return o.say("%s is delivered", plain(data.Topic))
	}
	o.addFlags(cmd)
	return cmd
}
