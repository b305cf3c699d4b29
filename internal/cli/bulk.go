package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

const kickLong = `Make a dead job ready again, with its attempts at 0; or with --topic those of a topic, the oldest first.`

// kick is the command `dqbridge kick`.
type kick struct {
	operation
	topic string
	limit int
}

func newKick(env Env) *cobra.Command {
	k := &kick{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "kick ID | --topic TOPIC", Short: "make dead jobs ready again", Long: kickLong,
		Example: "  dqbridge kick report-1\n  dqbridge kick --topic mail --limit 10",
		Args:    arguments(0, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == cmd.Flags().Changed("topic") {
				return usagef("kick wants either an ID or --topic")
			}
			if len(args) == 1 && cmd.Flags().Changed("limit") {
				return usagef("--limit goes with --topic")
			}
			return k.run(cmd, args)
		},
	}
	k.addFlags(cmd)
	cmd.Flags().StringVar(&k.topic, "topic", "", "kick the dead jobs of this `topic`")
	cmd.Flags().IntVar(&k.limit, "limit", 0, "kick no more than so many (all)")
	k.waitLong(cmd)
	completeFlag(cmd, "topic", k.completeTopics)
	return cmd
}

func (k *kick) run(cmd *cobra.Command, args []string) error {
	var ask any = idRequest{strings.Join(args, "")}
	if len(args) == 0 {
		bulk := struct {
			topicRequest
			Limit *int `json:"limit,omitempty"`
		}{topicRequest: topicRequest{k.topic}}
		if cmd.Flags().Changed("limit") {
			bulk.Limit = &k.limit
		}
		ask = bulk
	}
	var data struct {
		Kicked int `json:"kicked"`
	}
	if err := k.admin(cmd.Context(), "kick", ask, &data); err != nil {
		return err
	}
	return k.say("kicked %s", plural(data.Kicked, "job"))
}

// waitLong makes the time limit that of a verb which goes through many jobs.
func (o *operation) waitLong(cmd *cobra.Command) {
	o.timeout = bulkTimeout
	cmd.Flags().Lookup("timeout").DefValue = bulkTimeout.String()
}

// purge is the command `dqbridge purge`.
type purge struct {
	operation
	state string
	yes   bool
}

func newPurge(env Env) *cobra.Command {
	p := &purge{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "purge TOPIC --state STATE", Short: "remove all jobs of a topic in one state",
		Long:    "Remove all jobs of TOPIC that are in one state, for good. On a terminal it asks first.",
		Example: "  dqbridge purge mail --state dead\n  dqbridge purge mail --state delayed --yes",
		Args:    arguments(1, 1), ValidArgsFunction: p.completeTopic,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.addFlags(cmd)
	cmd.Flags().StringVar(&p.state, "state", "", "`state` of the jobs: delayed, ready, inflight or dead")
	cmd.Flags().BoolVarP(&p.yes, "yes", "y", false, "do not ask")
	p.waitLong(cmd)
	completeFlag(cmd, "state", completeStates())
	return cmd
}

func (p *purge) run(ctx context.Context, topic string) error {
	if err := checkState(p.state); err != nil {
		return err
	}
	if !p.yes {
		if err := p.confirm(ctx, topic); err != nil {
			return err
		}
	}
	var data struct {
		Purged int `json:"purged"`
	}
	ask := struct {
		topicRequest
		State string `json:"state"`
	}{topicRequest{topic}, p.state}
	if err := p.admin(ctx, "purge", ask, &data); err != nil {
		return err
	}
	return p.say("removed %s", plural(data.Purged, "job"))
}

func checkState(state string) error {
	if slices.Contains(states(), state) {
		return nil
	}
	return usagef("--state %q: want %s or %s", state, strings.Join(states()[:3], ", "), states()[3])
}

// confirm asks the user, and gives an error unless the answer is yes.
func (p *purge) confirm(ctx context.Context, topic string) error {
	if !p.env.Interactive {
		return usagef("purge removes jobs for good: where nobody can be asked it wants --yes")
	}
	count, err := p.count(ctx, topic)
	if err != nil {
		return err
	}
	if count == 0 {
		return nil // and the bridge says so; a topic with a mistake in it is refused there
	}
	_, _ = fmt.Fprintf(p.env.Stderr, "Remove %s of topic %s for good? [y/N] ",
		plural(int(count), p.state+" job"), plain(topic))
	answer := make(chan string, 1)
	// A read cannot be cancelled: after Ctrl-C it ends with the program.
	go func() {
		line, _ := bufio.NewReader(p.env.Stdin).ReadString('\n') // an end of input is no yes
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errors.New("nothing is removed")
	case <-ctx.Done():
		p.note("")
		return p.explain(ctx.Err())
	}
}

// count is how many jobs a purge would remove.
func (p *purge) count(ctx context.Context, topic string) (int64, error) {
	t := topics{operation: operation{connection: p.connection}, paging: paging{all: true}, found: map[string]client.Topic{}}
	err := t.with(func(bridge client.Client) error {
		_, err := t.follow(t.pages(ctx, bridge, topic))
		return err
	})
	found := t.found[topic]
	return count(&found, p.state), err
}
