package bench

import (
	"context"
	"fmt"

	"github.com/dqbridge/dqbridge/internal/client"
)

// Memory measures what pending jobs take in Redis, as Redis itself says: what others store meanwhile is counted as well.
// The jobs are removed at the end.
func Memory(ctx context.Context, o Options) (Result, error) {
	return run(ctx, o, "memory", func(ctx context.Context, s *session) (Result, error) {
		before, err := s.usedMemory(ctx)
		if err != nil {
			return Result{}, err
		}
		r, err := pending(ctx, s)
		if err != nil {
			return Result{}, err
		}
		after, err := s.usedMemory(ctx)
		r.BytesPerJob = float64(after-before) / float64(s.Jobs)
		return r, err
	})
}

func (s *session) usedMemory(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	var stats client.Stats
	if _, err := client.New(s.nc, s.Prefix).Admin(ctx, "stats", struct{}{}, &stats); err != nil {
		return 0, fmt.Errorf("ask for the memory of Redis: %w", err)
	}
	return stats.Redis.UsedMemory, nil
}
