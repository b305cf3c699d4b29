package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
)

// removeWithin is how long the jobs of a run may take to be removed.
const removeWithin = 2 * time.Minute

// remove purges the topics of this run. What is in flight is gone with the first round, unless it became ready meanwhile:
// the order of states is that in which a job goes through them.
func (s *session) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	bridge := client.New(s.nc, s.Prefix)
	for i := range min(s.Topics, s.Jobs) {
		for _, state := range []string{"delayed", "ready", "inflight"} {
			ask := struct {
				Topic string `json:"topic"`
				State string `json:"state"`
			}{s.topic(i), state}
			var purged struct{}
			if _, err := bridge.Admin(ctx, "purge", ask, &purged); err != nil {
				return fmt.Errorf("remove what was pushed to topic %s: %w", s.topic(i), err)
			}
		}
	}
	return nil
}
