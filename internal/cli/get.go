package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// get is the command `dqbridge get`.
type get struct {
	operation
	bodyOnly bool
}

func newGet(env Env) *cobra.Command {
	g := &get{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "get ID", Short: "show a stored job",
		Long:    "Show a stored job: its fields, and below them its body. With --body the body alone.",
		Example: "  dqbridge get report-1\n  dqbridge get report-1 --json | jq .data.state\n  dqbridge get image-7 --body > picture.png",
		Args:    arguments(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args[0]) },
	}
	g.addFlags(cmd)
	cmd.Flags().BoolVar(&g.bodyOnly, "body", false, "print the body alone")
	cmd.MarkFlagsMutuallyExclusive("body", "json")
	return cmd
}

func (g *get) run(ctx context.Context, id string) error {
	var job client.Stored
	if err := g.admin(ctx, "get", idRequest{id}, &job); err != nil || g.json {
		return err
	}
	if g.bodyOnly && job.BodyBytes > 0 {
		return fmt.Errorf("the body has %d bytes, which do not fit into a reply", job.BodyBytes)
	}
	text := ""
	if !g.bodyOnly {
		text = g.fields(&job) + "\n"
	}
	_, err := g.env.Stdout.Write(append([]byte(text), g.body(&job)...))
	return err
}

func (g *get) body(job *client.Stored) []byte {
	if job.BodyBytes > 0 {
		return fmt.Appendf(nil, "(%d bytes, which do not fit into a reply)\n", job.BodyBytes)
	}
	raw := job.Body == nil
	body := []byte(job.Body)
	if raw {
		body = job.BodyBase64
	}
	if g.env.Terminal {
		body = readable(body)
	}
	if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n")) && (!raw || !g.bodyOnly || g.env.Terminal) {
		body = append(bytes.Clone(body), '\n')
	}
	return body
}

func (g *get) fields(j *client.Stored) string {
	now := g.env.Now()
	moment := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return fmt.Sprintf("%s (%s)", stamp(at, now), relative(at, now))
	}
	first := moment(j.FirstDueAt)
	if j.FirstDueAt.Equal(j.DueAt) {
		first = ""
	}
	attempts := strconv.Itoa(j.Attempt)
	if j.MaxAttempts > 0 {
		attempts += " of " + strconv.Itoa(j.MaxAttempts)
	}
	ttr := "0, no redelivery"
	if j.TTR > 0 {
		ttr = period(j.TTR.Duration())
	}
	expires := ""
	if j.Expires > 0 {
		expires = period(j.Expires.Duration()) + " after it is due"
	}
	return fields(slices.Concat([]field{
		{"id", j.ID},
		{"topic", j.Topic},
		{"state", j.State},
		{"reason", j.DeadReason},
		{"died", moment(j.DeadAt)},
		{"attempts", attempts},
		{"TTR ends", moment(j.DeadlineAt)},
		{"due", moment(j.DueAt)},
		{"first due", first},
		{"pushed", moment(j.PushedAt)},
		{"delay", period(j.Delay.Duration())},
		{"TTR", ttr},
		{"backoff", periods(j.Backoff)},
		{"expires", expires},
	}, headerFields(j)))
}

func headerFields(j *client.Stored) []field {
	var list []field
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		for _, value := range j.Headers[name] {
			list = append(list, field{"header", name + "=" + value})
		}
	}
	return list
}

func periods(list []client.Seconds) string {
	var texts []string
	for _, pause := range list {
		texts = append(texts, period(pause.Duration()))
	}
	return strings.Join(texts, ", ")
}
