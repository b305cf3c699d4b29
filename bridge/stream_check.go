package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrPushStream says that pushes cannot come through the stream that is configured.
var ErrPushStream = errors.New("pushes cannot come through the stream")

// settings are those of the stream where it is made.
func (s *stream) settings() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.name, Description: "pushes for dqbridge", Subjects: []string{s.subjects.push(), s.subjects.pushes()},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}
}

// check refuses a stream that would miss pushes, lose them, or keep them for ever, and warns of one that is only risky.
// Limits whose excess the publisher is told of are the owner's choice.
func (s *stream) check(c *jetstream.StreamConfig) error {
	var faults []string
	wrong := func(setting string, held, wanted any) {
		faults = append(faults, fmt.Sprintf("%s is %v, wanted is %v", setting, held, wanted))
	}
	wanted := s.settings()
	if !slices.Equal(slices.Sorted(slices.Values(c.Subjects)), wanted.Subjects) {
		wrong("subjects", quoted(c.Subjects), quoted(wanted.Subjects))
	}
	if c.Retention != wanted.Retention {
		wrong("retention", c.Retention, wanted.Retention)
	}
	if c.MaxAge > 0 {
		wrong("max_age", c.MaxAge, "0, as pushes wait however long no bridge runs")
	}
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0
	if c.Discard == jetstream.DiscardOld && limited {
		wrong("discard", fmt.Sprintf("old with max_msgs %d, max_bytes %d, max_msgs_per_subject %d", c.MaxMsgs, c.MaxBytes, c.MaxMsgsPerSubject),
			"new, or no such limits (-1): a push that was confirmed would be dropped")
	}
	if c.Discard == jetstream.DiscardNew && c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject {
		wrong("discard_new_per_subject", false, fmt.Sprintf("true with max_msgs_per_subject %d: a push that was confirmed would be dropped", c.MaxMsgsPerSubject))
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: stream %s: %s", ErrPushStream, s.name, strings.Join(faults, "; "))
	}
	if c.Storage == jetstream.MemoryStorage {
		s.log.Warn().Str("stream", s.name).Msg("stream for pushes is kept in memory: what waits there is lost when its server ends")
	}
	if c.NoAck {
		s.log.Warn().Str("stream", s.name).Msg("stream for pushes confirms nothing: publishers do not know whether it has a push")
	}
	return nil
}

func quoted(list []string) string { return fmt.Sprintf("%q", list) }
