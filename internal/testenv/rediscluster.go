package testenv

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	slots = 16384
	// clusterWithin bounds how long a group of servers takes to agree.
	clusterWithin = 30 * time.Second
)

// RedisCluster is a Redis Cluster of real servers: masters, and one replica of each.
type RedisCluster struct {
	t testing.TB
	// Masters and Replicas are as they were at the start: Replicas[i] follows Masters[i] until somebody fails over.
	Masters, Replicas []*RedisServer
}

// NewRedisCluster starts a cluster with that many masters; args are appended to the command line of each server.
// A master that is gone for a second is replaced by its replica.
func NewRedisCluster(tb testing.TB, masters int, args ...string) *RedisCluster {
	tb.Helper()
	c := &RedisCluster{t: tb}
	for i := range 2 * masters {
		bus, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		node := Redis(tb, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", strconv.Itoa(bus),
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, args...)...)
		if i < masters {
			c.Masters = append(c.Masters, node)
			from, to := slots*i/masters, slots*(i+1)/masters-1
			c.do(node, "cluster", "addslotsrange", from, to)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
		host, port, _ := net.SplitHostPort(c.Masters[0].Addr())
		if i > 0 {
			c.do(node, "cluster", "meet", host, port, c.busPort(c.Masters[0]))
		}
	}
	c.await(func(node *RedisServer) bool {
		return strings.Contains(c.text(node, "cluster", "info"), "cluster_known_nodes:"+strconv.Itoa(2*masters))
	}, "all nodes know each other")
	for i, node := range c.Replicas {
		c.do(node, "cluster", "replicate", c.text(c.Masters[i], "cluster", "myid"))
	}
	c.await(func(node *RedisServer) bool {
		return strings.Contains(c.text(node, "cluster", "info"), "cluster_state:ok") &&
			strings.Count(c.text(node, "cluster", "nodes"), "slave") == masters
	}, "the cluster is whole")
	for _, node := range c.Replicas {
		Eventually(tb, clusterWithin, func() bool {
			return strings.Contains(c.text(node, "info", "replication"), "master_link_status:up")
		}, "a replica follows its master")
	}
	return c
}

// URL is redis+cluster://h1:p,h2:p,….
func (c *RedisCluster) URL() string {
	addrs := make([]string, 0, len(c.Masters))
	for _, node := range c.Masters {
		addrs = append(addrs, node.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Client is a client of the whole cluster, closed with the test.
func (c *RedisCluster) Client() *redis.ClusterClient {
	var addrs []string
	for _, node := range append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...) {
		addrs = append(addrs, node.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Owner is the master that has a key's slot, by the word of the first server that runs, and the slot.
func (c *RedisCluster) Owner(key string) (*RedisServer, int) {
	c.t.Helper()
	slot := c.number(c.Masters[0], "cluster", "keyslot", key)
	for _, node := range c.Masters {
		for _, part := range c.slotsOf(node) {
			if slot >= part[0] && slot <= part[1] {
				return node, slot
			}
		}
	}
	c.t.Fatalf("no master of the start has slot %d", slot)
	return nil, 0
}

// BeginMove opens a slot for its way from one master to another: what is there stays until MoveKeys.
func (c *RedisCluster) BeginMove(slot int, from, to *RedisServer) {
	c.t.Helper()
	c.do(to, "cluster", "setslot", slot, "importing", c.text(from, "cluster", "myid"))
	c.do(from, "cluster", "setslot", slot, "migrating", c.text(to, "cluster", "myid"))
}

// MoveKeys moves up to n keys of a slot on its way, and gives how many that were.
func (c *RedisCluster) MoveKeys(slot, n int, from, to *RedisServer) int {
	c.t.Helper()
	keys, err := from.Client().ClusterGetKeysInSlot(c.t.Context(), slot, n).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(to.Addr())
	for _, key := range keys {
		c.do(from, "migrate", host, port, key, 0, 5000)
	}
	return len(keys)
}

// EndMove gives a slot, whose keys were all moved, to its new master.
func (c *RedisCluster) EndMove(slot int, from, to *RedisServer) {
	c.t.Helper()
	owner := c.text(to, "cluster", "myid")
	for _, node := range append([]*RedisServer{to, from}, c.Masters...) {
		c.do(node, "cluster", "setslot", slot, "node", owner)
	}
}

// slotsOf gives the ranges of slots that a node says are its own.
func (c *RedisCluster) slotsOf(node *RedisServer) [][2]int {
	c.t.Helper()
	var parts [][2]int
	for line := range strings.Lines(c.text(node, "cluster", "nodes")) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, field := range fields[8:] {
			first, last, found := strings.Cut(field, "-")
			if !found {
				last = first
			}
			from, errFrom := strconv.Atoi(first)
			to, errTo := strconv.Atoi(last)
			if errors.Join(errFrom, errTo) == nil { // not a slot on its way, "[…]"
				parts = append(parts, [2]int{from, to})
			}
		}
	}
	return parts
}

func (c *RedisCluster) await(cond func(node *RedisServer) bool, message string) {
	c.t.Helper()
	for _, node := range append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...) {
		Eventually(c.t, clusterWithin, func() bool { return cond(node) }, message)
	}
}

func (c *RedisCluster) busPort(node *RedisServer) int {
	c.t.Helper()
	for i, arg := range node.server.args {
		if arg == "--cluster-port" {
			port, _ := strconv.Atoi(node.server.args[i+1])
			return port
		}
	}
	return 0
}

func (c *RedisCluster) do(node *RedisServer, args ...any) any {
	c.t.Helper()
	reply, err := node.Client().Do(c.t.Context(), args...).Result()
	if err != nil {
		c.t.Fatalf("%v at %s: %v", args, node.Addr(), err)
	}
	return reply
}

func (c *RedisCluster) text(node *RedisServer, args ...any) string {
	c.t.Helper()
	return fmt.Sprint(c.do(node, args...))
}

func (c *RedisCluster) number(node *RedisServer, args ...any) int {
	c.t.Helper()
	n, _ := c.do(node, args...).(int64)
	return int(n)
}
