package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

const (
	// maxPage is the largest page that the bridge gives.
	maxPage = 1000
	// defaultLimit is how much a listing shows that was not asked for more.
	defaultLimit = 100
)

// paging is how much of a listing is wanted.
type paging struct {
	limit  int
	all    bool
	cursor string
}

func (p *paging) addFlags(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.IntVar(&p.limit, "limit", defaultLimit, "show about so many "+what)
	flags.BoolVar(&p.all, "all", false, "show all, however many there are")
	flags.StringVar(&p.cursor, "cursor", "", "go on where a reply's `cursor` says")
	cmd.MarkFlagsMutuallyExclusive("limit", "all")
	cmd.Flags().Lookup("json").Usage = "print the bridge's replies as they are, each page on one line"
}

func (p *paging) check() error {
	if p.limit < 1 {
		return usagef("--limit %d: want 1 or more", p.limit)
	}
	return nil
}

// pageFunc shows the page at a cursor, with no more than limit entries. It gives how many it had, and the cursor of the
// next one.
type pageFunc func(cursor string, limit int) (int, string, error)

// follow gets pages until there is no cursor, which may be long after an empty page, or enough is shown: then the
// result is true.
func (p *paging) follow(page pageFunc) (bool, error) {
	cursor := p.cursor
	for shown := 0; p.all || shown < p.limit; {
		limit := maxPage
		if !p.all {
			limit = min(maxPage, p.limit-shown)
		}
		n, next, err := page(cursor, limit)
		if err != nil || next == "" {
			return false, err
		}
		cursor, shown = next, shown+n
	}
	return true, nil
}

// list is the command `dqbridge list`.
type list struct {
	operation
	paging
	state string
	topic string
	table *table
	more  []string // states that have more jobs than were asked for
}

const listLong = `List stored jobs: those of TOPIC in every state or in the one of --state; without TOPIC those of all topics in the state
of --state. Delayed jobs come by due time, those in flight by the end of their TTR, dead ones by their death; --limit counts
for each state. On a terminal moments are shown by how far they are away.`

func newList(env Env) *cobra.Command {
	l := &list{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "list [TOPIC]", Short: "list stored jobs", Long: listLong,
		Example: "  dqbridge list mail\n  dqbridge list mail --state dead --limit 20\n" +
			"  dqbridge list --state delayed --all --json | jq -r '.data.jobs[].id'",
		Args: arguments(0, 1), ValidArgsFunction: l.completeTopic,
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	l.operation.addFlags(cmd)
	l.paging.addFlags(cmd, "jobs")
	cmd.Flags().StringVar(&l.state, "state", "", "`state` of the jobs: delayed, ready, inflight or dead")
	completeFlag(cmd, "state", completeStates())
	return cmd
}

func (l *list) run(ctx context.Context, args []string) error {
	if err := l.check(args); err != nil {
		return err
	}
	wanted := states()
	if l.state != "" {
		wanted = []string{l.state}
	}
	l.table = newTable(l.env, column{title: "ID"}, column{title: "TOPIC"}, column{title: "STATE"},
		column{title: "ATTEMPT", right: true}, column{title: "WHEN"})
	err := l.with(func(bridge client.Client) error {
		for _, state := range wanted {
			if err := l.show(ctx, bridge, state); err != nil {
				return err
			}
		}
		return nil
	})
	if l.json {
		return err
	}
	if err = errors.Join(err, l.table.flush()); err != nil { // what came before an error is shown
		return err
	}
	if l.table.empty() {
		l.note("no jobs")
	}
	for _, state := range l.more {
		l.note("more %s jobs follow: --limit or --all shows them", state)
	}
	return nil
}

func (l *list) check(args []string) error {
	if len(args) == 1 {
		l.topic = args[0]
		if l.topic == "" {
			return usagef("TOPIC is empty")
		}
	}
	if l.state == "" && l.topic == "" {
		return usagef("list wants a TOPIC, or --state")
	}
	if l.state == "" && l.cursor != "" {
		return usagef("--cursor wants the --state that it is from")
	}
	if l.state != "" {
		if err := checkState(l.state); err != nil {
			return err
		}
	}
	return l.paging.check()
}

// show lists the jobs in one state.
func (l *list) show(ctx context.Context, bridge client.Client, state string) error {
	more, err := l.follow(func(cursor string, limit int) (int, string, error) {
		return l.page(ctx, bridge, client.Listing{Topic: l.topic, State: state, Cursor: cursor, Limit: limit})
	})
	if more {
		l.more = append(l.more, state)
	}
	return err
}

func (l *list) page(ctx context.Context, bridge client.Client, ask client.Listing) (int, string, error) {
	var page client.Page
	if err := l.request(ctx, bridge, "list", ask, &page); err != nil {
		return 0, "", err
	}
	if !l.json {
		rows := make([][]string, len(page.Jobs))
		for i := range page.Jobs {
			j := &page.Jobs[i]
			rows[i] = []string{j.ID, j.Topic, j.State, strconv.Itoa(j.Attempt), l.env.when(j)}
		}
		if err := l.table.add(rows); err != nil {
			return 0, "", err
		}
	}
	return len(page.Jobs), page.Cursor, nil
}

// when is the moment that matters of a job in its state.
func (e Env) when(j *client.Stored) string {
	switch j.State {
	case "inflight":
		return "TTR ends " + e.moment(j.DeadlineAt)
	case "dead":
		return "died " + e.moment(j.DeadAt) + ", " + j.DeadReason
	default:
		return "due " + e.moment(j.DueAt)
	}
}
