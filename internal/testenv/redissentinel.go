package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sentinelMaster is the name under which the sentinels know the master.
const sentinelMaster = "queue"

// RedisSentinel is a master with replicas, watched by three sentinels that replace it when it is gone for a second.
type RedisSentinel struct {
	t testing.TB
	// Nodes are the servers; the first one was the master at the start.
	Nodes     []*RedisServer
	sentinels []*RedisServer
}

// NewRedisSentinel starts a master and that many replicas; args are appended to the command line of each server.
func NewRedisSentinel(tb testing.TB, replicas int, args ...string) *RedisSentinel {
	tb.Helper()
	s := &RedisSentinel{t: tb}
	const sentinels, quorum = 3, 2
	for i := range 1 + replicas {
		of := []string{"--repl-diskless-sync-delay", "0"}
		if i > 0 {
			host, port, _ := net.SplitHostPort(s.Nodes[0].Addr())
			of = append(of, "--replicaof", host+" "+port)
		}
		s.Nodes = append(s.Nodes, Redis(tb, append(of, args...)...))
	}
	for _, node := range s.Nodes[1:] {
		Eventually(tb, clusterWithin, func() bool {
			return strings.Contains(s.ask(node, "info", "replication"), "master_link_status:up")
		}, "a replica follows its master")
	}
	host, port, _ := net.SplitHostPort(s.Nodes[0].Addr())
	for range sentinels {
		file := filepath.Join(tb.TempDir(), "sentinel.conf")
		if err := os.WriteFile(file, []byte(strings.Join([]string{
			"sentinel monitor " + sentinelMaster + " " + host + " " + port + " " + strconv.Itoa(quorum),
			"sentinel down-after-milliseconds " + sentinelMaster + " 1000",
			"sentinel failover-timeout " + sentinelMaster + " 5000", "",
		}, "\n")), 0o600); err != nil {
			tb.Fatal(err)
		}
		s.sentinels = append(s.sentinels, Redis(tb, file, "--sentinel"))
	}
	for _, one := range s.sentinels {
		Eventually(tb, clusterWithin, func() bool {
			info := s.ask(one, "info", "sentinel")
			return strings.Contains(info, "sentinels="+strconv.Itoa(sentinels)) && strings.Contains(info, "slaves="+strconv.Itoa(replicas))
		}, "a sentinel knows the others and the replicas")
	}
	return s
}

// Sentinels are the servers that watch.
func (s *RedisSentinel) Sentinels() []*RedisServer { return s.sentinels }

// URL is redis+sentinel://h1:p,h2:p,h3:p/master.
func (s *RedisSentinel) URL() string {
	addrs := make([]string, 0, len(s.sentinels))
	for _, one := range s.sentinels {
		addrs = append(addrs, one.Addr())
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + sentinelMaster
}

// Master is the server that the sentinels call the master now.
func (s *RedisSentinel) Master() *RedisServer {
	s.t.Helper()
	found, err := s.sentinels[0].Client().Do(s.t.Context(), "sentinel", "get-master-addr-by-name", sentinelMaster).StringSlice()
	if err != nil || len(found) != 2 {
		s.t.Fatalf("ask for the master: %v: %v", found, err)
	}
	for _, node := range s.Nodes {
		if node.Addr() == net.JoinHostPort(found[0], found[1]) {
			return node
		}
	}
	s.t.Fatalf("the master %v is a stranger", found)
	return nil
}

// Failover lets the sentinels replace a master that is well, and waits until they have.
func (s *RedisSentinel) Failover() {
	s.t.Helper()
	was := s.Master()
	Eventually(s.t, clusterWithin, func() bool { // refused while the last one is young
		return s.sentinels[0].Client().Do(s.t.Context(), "sentinel", "failover", sentinelMaster).Err() == nil
	}, "the sentinels begin a failover")
	Eventually(s.t, clusterWithin, func() bool { return s.Master() != was }, "there is another master")
}

func (s *RedisSentinel) ask(node *RedisServer, args ...any) string {
	s.t.Helper()
	text, err := node.Client().Do(s.t.Context(), args...).Text()
	if err != nil {
		s.t.Logf("%v at %s: %v", args, node.Addr(), err)
	}
	return text
}
