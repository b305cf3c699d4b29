package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// watchQueue is the queue group of all `watch --work`, so that several share the jobs.
const watchQueue = "dqbridge-watch"

// watch is the command `dqbridge watch`.
type watch struct {
	connection
	topic string
}

const watchLong = `Show what the bridge announces on <prefix>.event.>: jobs delivered, finished, dead, and pushes rejected.

With --work it is a worker instead: it takes the jobs of a topic, prints and finishes each. A finished job is gone, so
use it where no real work is lost. Several of them share the jobs.`

func newWatch(env Env) *cobra.Command {
	w := &watch{connection: connection{env: env}}
	cmd := &cobra.Command{
		Use: "watch", Short: "show events, or take jobs and print them", Long: watchLong,
		Example: "  dqbridge watch\n  dqbridge watch --work mail\n  dqbridge watch --work 'mail.*'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return w.run(cmd.Context()) },
	}
	w.addFlags(cmd)
	cmd.Flags().StringVar(&w.topic, "work", "", "take, print and finish the jobs of this `topic`")
	completeFlag(cmd, "work", w.completeTopics)
	return cmd
}

func (w *watch) run(ctx context.Context) error {
	nc, err := w.open(w.notices()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	bridge := w.client(nc)
	subject, queue, show := bridge.EventPrefix()+">", "", w.showEvent(bridge)
	if w.topic != "" {
		subject, queue, show = bridge.ReadySubject(w.topic), watchQueue, w.showJob(bridge)
	}
	sub, err := nc.QueueSubscribeSync(subject, queue)
	if err != nil {
		return fmt.Errorf("subscribe %s: %w", subject, err)
	}
	// Only after a round trip is a refused subscription known.
	if err := nc.FlushTimeout(w.timeout); err != nil {
		return fmt.Errorf("subscribe %s: %w", subject, err)
	}
	w.note("watching %s at %s, Ctrl-C ends it", subject, w.env.Redact(nc.ConnectedUrl()))
	if err := follow(ctx, sub, show); err != nil {
		return fmt.Errorf("watch %s: %w", subject, err)
	}
	return nil
}

// follow shows messages until ctx ends, and then those that have already come: they would wait for their TTR.
func follow(ctx context.Context, sub *nats.Subscription, show func(context.Context, *nats.Msg) error) error {
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			if err = show(ctx, msg); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return drain(context.WithoutCancel(ctx), sub, show)
		case !errors.Is(err, nats.ErrSlowConsumer): // that one lost messages, and goes on
			return err
		}
	}
}

// drain takes what is left until the connection has nothing more, within a limit of its own.
func drain(ctx context.Context, sub *nats.Subscription, show func(context.Context, *nats.Msg) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := sub.Drain(); err != nil {
		return nil // the connection is gone, and the user wants to leave
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil // empty and closed, or out of time
		}
		if err := show(ctx, msg); err != nil {
			return err
		}
	}
}

// showEvent prints an event.
func (w *watch) showEvent(bridge client.Client) func(context.Context, *nats.Msg) error {
	return func(_ context.Context, msg *nats.Msg) error {
		return w.printLine(eventLine(msg, bridge.EventPrefix()))
	}
}

// showJob prints a job and finishes it.
func (w *watch) showJob(bridge client.Client) func(context.Context, *nats.Msg) error {
	return func(ctx context.Context, msg *nats.Msg) error {
		l := jobLine(msg, w.env.Now())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout)
		defer cancel()
		if _, err := bridge.Ack(ctx, msg); err != nil {
			l.kind, l.tail = bad, append(l.tail, fmt.Sprintf("not finished: %v", err))
		}
		return w.printLine(l)
	}
}

func (w *watch) printLine(l line) error {
	_, err := fmt.Fprintln(w.env.Stdout, l.text(w.env.Now(), w.env.Colour))
	return err
}

// notices report the state of the connection, which heals by itself.
func (w *watch) notices() []nats.Option {
	return []nats.Option{
		nats.PermissionErrOnSubscribe(true),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				w.note("connection to NATS lost (%v), trying again", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { w.note("connected to NATS again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { w.note("NATS: %v", err) }),
	}
}
