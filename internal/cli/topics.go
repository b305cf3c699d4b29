package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// topics is the command `dqbridge topics`.
type topics struct {
	operation
	paging
	found map[string]client.Topic // a topic may come on several pages: the last one counts
}

const topicsLong = `List the topics that have jobs or are paused, with how many jobs are in each state. MATCH takes NATS wildcards: * for one
token, > for all that follow. LISTENING is what the last delivery saw: a worker, nobody, or a dash where there was none.
OLDEST is how long the first ready job has waited.`

func newTopics(env Env) *cobra.Command {
	t := &topics{operation: operation{connection: connection{env: env}}, found: map[string]client.Topic{}}
	cmd := &cobra.Command{
		Use: "topics [MATCH]", Short: "list topics and how many jobs they have", Long: topicsLong,
		Example: "  dqbridge topics\n  dqbridge topics 'mail.*'\n  dqbridge topics --all --json",
		Args:    arguments(0, 1), ValidArgsFunction: t.completeTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return t.run(cmd.Context(), append(args, "")[0])
		},
	}
	t.operation.addFlags(cmd)
	t.paging.addFlags(cmd, "topics")
	return cmd
}

func (t *topics) run(ctx context.Context, match string) error {
	var more bool
	err := t.with(func(bridge client.Client) error {
		var err error
		more, err = t.follow(t.pages(ctx, bridge, match))
		return err
	})
	if err != nil || t.json {
		return err
	}
	if err := t.print(); err != nil {
		return err
	}
	if more || !t.all && len(t.found) > t.limit {
		t.note("more topics follow: --limit or --all shows them")
	} else if len(t.found) == 0 {
		t.note("no topics")
	}
	return nil
}

// pages collects the topics of each page.
func (t *topics) pages(ctx context.Context, bridge client.Client, match string) pageFunc {
	return func(cursor string, limit int) (int, string, error) {
		var page client.TopicPage
		err := t.request(ctx, bridge, "topics", client.TopicListing{Match: match, Cursor: cursor, Limit: limit}, &page)
		for _, topic := range page.Topics {
			t.found[topic.Topic] = topic
		}
		return len(page.Topics), page.Cursor, err
	}
}

func (t *topics) print() error {
	table := newTable(t.env, column{title: "TOPIC"}, column{"DELAYED", true}, column{"READY", true}, column{"INFLIGHT", true},
		column{"DEAD", true}, column{title: "LISTENING"}, column{title: "PAUSED"}, column{"OLDEST", true})
	var rows [][]string
	names := slices.Sorted(maps.Keys(t.found))
	if !t.all && len(names) > t.limit { // a page may hold more than it was asked for
		names = names[:t.limit]
	}
	for _, name := range names {
		topic := t.found[name]
		row := []string{name}
		for _, state := range states() {
			row = append(row, strconv.FormatInt(count(&topic, state), 10))
		}
		oldest := "-"
		if topic.Oldest != nil {
			oldest = coarse(topic.Oldest.Duration())
		}
		rows = append(rows, append(row, yesNo(topic.Listening), yesNo(&topic.Paused), oldest))
	}
	return table.print(rows)
}

// count is how many jobs of a topic are in a state.
func count(t *client.Topic, state string) int64 {
	switch state {
	case "delayed":
		return t.Delayed
	case "ready":
		return t.Ready
	case "inflight":
		return t.InFlight
	case "dead":
		return t.Dead
	}
	return 0
}

func yesNo(value *bool) string {
	switch {
	case value == nil:
		return "-"
	case *value:
		return "yes"
	default:
		return "no"
	}
}
