package delay

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// redirections bounds how often a call is sent on to another node of a cluster.
const redirections = 3

// cluster follows the redirections of a Redis Cluster. The cluster client would do so by itself, but it would also send
// again what may have been carried out, and WAIT must run on the very connection that wrote. So each call goes to the
// client of its node.
type cluster struct {
	mu sync.Mutex
	// nodes are the clients of nodes that the cluster client does not know yet, by address.
	nodes map[string]*redis.Client
}

// sendToCluster groups calls by node, sends them, and sends on those that a node redirects: such a call ran nothing.
func (s *Store) sendToCluster(ctx context.Context, calls []*call) {
	groups := make(map[place][]*call)
	for _, c := range calls {
		node, err := s.node(ctx, c.keys[0])
		if err != nil {
			c.err = err
			continue
		}
		groups[place{node: node}] = append(groups[place{node: node}], c)
	}
	for range redirections {
		var sending sync.WaitGroup // side by side: one node that does not answer holds up no other
		for at, group := range groups {
			sending.Go(func() { sendTo(ctx, at.node, group, at.asking) })
		}
		sending.Wait()
		if groups = s.cluster.redirected(groups); len(groups) == 0 {
			break
		}
	}
	for _, c := range calls {
		if client, ok := s.client.(*redis.ClusterClient); ok && c.err != nil { // a node is gone, a replica now, or has lost the slot
			client.ReloadState(ctx)
			return
		}
	}
}

// node gives the client of the node that holds a key.
func (s *Store) node(ctx context.Context, key string) (*redis.Client, error) {
	switch client := s.client.(type) {
	case *redis.Client:
		return client, nil
	case *redis.ClusterClient:
		node, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, &UnavailableError{Cause: err}
		}
		return node, nil
	}
	return nil, &UnavailableError{Cause: errors.New("unknown kind of redis client")}
}

// place is where a call is to go.
type place struct {
	node   *redis.Client
	asking bool
}

// redirected gives the calls that are to be sent on, by where to.
func (c *cluster) redirected(groups map[place][]*call) map[place][]*call {
	on := make(map[place][]*call)
	for at, group := range groups {
		for _, call := range group {
			addr, asking := redirection(call.err)
			if addr == "" {
				continue
			}
			to := place{node: c.node(addr, at.node.Options()), asking: asking}
			on[to] = append(on[to], call)
		}
	}
	return on
}

// redirection gives the address that an error reply names, and whether only this call is to go there:
// "MOVED <slot> <host:port>" or "ASK <slot> <host:port>".
func redirection(err error) (string, bool) {
	var away *UnavailableError
	if !errors.As(err, &away) {
		return "", false
	}
	fields := strings.Fields(away.Cause.Error())
	if len(fields) != 3 || fields[0] != "MOVED" && fields[0] != "ASK" {
		return "", false
	}
	return fields[2], fields[0] == "ASK"
}

// node gives the client of an address; an address without a host is on the host of the node that named it.
func (c *cluster) node(addr string, like *redis.Options) *redis.Client {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(like.Addr)
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if node := c.nodes[addr]; node != nil {
		return node
	}
	options := *like
	options.Addr = addr
	if c.nodes == nil {
		c.nodes = make(map[string]*redis.Client)
	}
	c.nodes[addr] = redis.NewClient(&options)
	return c.nodes[addr]
}

func (c *cluster) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, node := range c.nodes {
		errs = append(errs, node.Close())
	}
	c.nodes = nil
	return errors.Join(errs...)
}
