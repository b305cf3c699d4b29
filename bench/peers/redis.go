package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redisOptions are for all peers on Redis.
var redisOptions = []Option{
	{"appendonly", "yes", "durable, as a store of jobs must be"},
	{"appendfsync", "everysec", "the usual setting, and what the other stores are set to: at most a second is lost in a crash"},
	{"save", "", "no snapshots beside the append-only file"},
	{"auto-aof-rewrite-min-size", "4gb", "a rewrite forks once in a while: it would fall into some rounds and not into others. JetStream and beanstalkd tidy up as they go, which is a small advantage of the peers on Redis"},
}

// redisServer is a redis-server child with a client to look at it.
type redisServer struct {
	*server
	client *redis.Client
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("no redis-server, Debian's package of that name has it: %w", err)
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "redis")
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args := []string{"--bind", host, "--port", port, "--dir", dir, "--daemonize", "no"}
	for _, o := range redisOptions {
		args = append(args, "--"+o.Name, o.Value)
	}
	s, err := startServer(ctx, dir, addr, exec.Command(path, args...))
	if err != nil {
		return nil, err
	}
	return &redisServer{server: s, client: redis.NewClient(&redis.Options{Addr: addr})}, nil
}

func (r *redisServer) stop() {
	if r == nil {
		return
	}
	_ = r.client.Close() // nothing is out on it
	r.server.stop()
}

// usedMemory is what Redis says its data takes.
func (r *redisServer) usedMemory(ctx context.Context) (int64, error) {
	info, err := r.client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no used_memory in the answer of Redis: %.200s", info)
}
