package delay

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Infos reads what each server that holds jobs says of itself, by field; of one that does not let this user read it,
// nothing.
func (s *Store) Infos(ctx context.Context) ([]map[string]string, error) {
	var mu sync.Mutex
	var infos []map[string]string
	ask := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		var reply redis.Error
		if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "NOPERM") {
			info, err = "", nil
		}
		if err != nil {
			return unavailable(err)
		}
		mu.Lock()
		defer mu.Unlock()
		infos = append(infos, infoFields(info))
		return nil
	}
	var err error
	switch client := s.client.(type) {
	case *redis.Client:
		err = ask(ctx, client)
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, ask)
	}
	return infos, err
}

// infoFields takes the answer to INFO apart.
func infoFields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}
