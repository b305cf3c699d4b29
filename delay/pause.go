package delay

import (
	"context"
	"fmt"
	"time"
)

// Paused reads which topics are paused.
func (s *Store) Paused(ctx context.Context) ([]string, error) {
	topics, err := s.client.HKeys(ctx, s.space.topics()).Result()
	if err != nil {
		return nil, fmt.Errorf("read paused topics: %w", unavailable(err))
	}
	return topics, nil
}

// Pause stops the delivery of a topic, for all replicas. since is for people who look.
func (s *Store) Pause(ctx context.Context, topic string, since time.Time) error {
	if err := s.client.HSetNX(ctx, s.space.topics(), topic, since.UnixMilli()).Err(); err != nil {
		return fmt.Errorf("pause topic: %w", unavailable(err))
	}
	return nil
}

// Resume ends a pause.
func (s *Store) Resume(ctx context.Context, topic string) error {
	if err := s.client.HDel(ctx, s.space.topics(), topic).Err(); err != nil {
		return fmt.Errorf("resume topic: %w", unavailable(err))
	}
	return nil
}
