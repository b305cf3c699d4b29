package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
)

const (
	// removeWithin is how long the jobs of a run may take to be removed.
	removeWithin = 2 * time.Minute
	removeAgain  = 100 * time.Millisecond
)

// remove purges the topics of this run until nothing is in them: a job that is just being delivered goes back to the ready
// ones when its workers are gone, perhaps after those were purged.
func (s *session) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	bridge := client.New(s.nc, s.Prefix)
	for {
		for i := range min(s.Topics, s.Jobs) {
			if err := purge(ctx, bridge, s.topic(i)); err != nil {
				return fmt.Errorf("remove what was pushed to topic %s: %w", s.topic(i), err)
			}
		}
		var left client.TopicPage
		if _, err := bridge.Admin(ctx, "topics", client.TopicListing{Match: s.Topic + ".*"}, &left); err != nil {
			return fmt.Errorf("look for what is left of %s: %w", s.Topic, err)
		}
		if len(left.Topics) == 0 && left.Cursor == "" {
			return nil
		}
		if err := pause(ctx, removeAgain); err != nil {
			return fmt.Errorf("jobs are left in the topics %s.*: %w", s.Topic, err)
		}
	}
}

func purge(ctx context.Context, bridge client.Client, topic string) error {
	for _, state := range []string{"delayed", "ready", "inflight", "dead"} {
		ask := struct {
			Topic string `json:"topic"`
			State string `json:"state"`
		}{topic, state}
		var purged struct{}
		if _, err := bridge.Admin(ctx, "purge", ask, &purged); err != nil {
			return err
		}
	}
	return nil
}
