package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// completionTimeout is how long a user who presses Tab waits at most.
const completionTimeout = 500 * time.Millisecond

// states are those a job can be in.
func states() []string { return []string{"delayed", "ready", "inflight", "dead"} }

// completeFlag sets what a flag is completed with.
func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil { // there is no such flag, as a test would show
		cobra.CompErrorln(err.Error())
	}
}

func completeStates() cobra.CompletionFunc {
	return cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)
}

// completeTopic asks a bridge for the first argument. Where none answers at once there is nothing to offer.
func (c *connection) completeTopic(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeTopics(cmd, args, begun)
}

func (c *connection) completeTopics(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	quiet := *c
	quiet.timeout = completionTimeout
	o := operation{connection: quiet}
	var page client.TopicPage
	if err := o.admin(cmd.Context(), "topics", client.TopicListing{Limit: maxPage}, &page); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var topics []cobra.Completion
	for _, t := range page.Topics {
		if strings.HasPrefix(t.Topic, begun) {
			topics = append(topics, t.Topic)
		}
	}
	return topics, cobra.ShellCompDirectiveNoFileComp
}
