package testenv

import (
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two ways through a Proxy.
type Direction int

// The two directions.
const (
	ToServer Direction = iota // requests
	ToClient                  // replies
)

// Proxy is a TCP proxy whose faults a test switches on and off. New and open connections are hit alike.
type Proxy struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu    sync.Mutex // guards all below
	ways  [2]way     // by Direction
	catch *catch     // nil: no request is held up
	cut   bool
	links map[*link]struct{}
}

// way is what happens to bytes of one direction.
type way struct {
	delay   time.Duration
	swallow bool
	held    chan struct{} // nil: bytes pass; else they wait until it is closed
}

// NewProxy starts a proxy in front of target (host:port).
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]struct{}{}}
	p.pumps.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Delay makes bytes of this direction arrive so much later, without slowing their rate. 0 ends it.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.change(func() { p.ways[dir].delay = d })
}

// Swallow loses the bytes of this direction while the connection stays open: a request or a reply that got lost.
// Heal closes the connections that lost bytes, since what follows on them would make no sense.
func (p *Proxy) Swallow(dir Direction) {
	p.change(func() { p.ways[dir].swallow = true })
}

// Hold keeps the bytes of this direction back and delivers them after Heal, as TCP does when a network was
// partitioned for a while.
func (p *Proxy) Hold(dir Direction) {
	p.change(func() {
		if p.ways[dir].held == nil {
			p.ways[dir].held = make(chan struct{})
		}
	})
}

// Cut closes all connections, with what is on its way in them, and every new one at once, until Heal.
func (p *Proxy) Cut() {
	p.change(func() { p.cut = true })
	p.Drop()
}

// Drop closes the open connections, with what is on its way in them; new ones pass.
func (p *Proxy) Drop() {
	for _, l := range p.open() {
		l.close()
	}
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	var broken []*link
	p.change(func() {
		for l := range p.links {
			if l.lost {
				broken = append(broken, l)
			}
			l.mute = nil
		}
		if p.catch != nil {
			close(p.catch.let)
			p.catch = nil
		}
		p.cut = false
		for dir := range p.ways {
			if p.ways[dir].held != nil {
				close(p.ways[dir].held)
			}
			p.ways[dir] = way{}
		}
	})
	for _, l := range broken {
		l.close()
	}
}

// Connections counts the connections that are open now.
func (p *Proxy) Connections() int { return len(p.open()) }

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) way(dir Direction) way {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ways[dir]
}

// loses says whether bytes of l are swallowed now, and remembers it in l.
func (p *Proxy) loses(l *link, dir Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.lost = l.lost || p.ways[dir].swallow
	return p.ways[dir].swallow
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.links))
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.Cut()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.serve(conn) })
	}
}

// serve carries one connection until one of its ends is gone.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, done: make(chan struct{})}
	if !p.add(l) {
		l.close()
		return
	}
	defer p.change(func() { delete(p.links, l) })
	var both sync.WaitGroup
	both.Go(func() { l.pump(ToServer, client, server) })
	both.Go(func() { l.pump(ToClient, server, client) })
	both.Wait()
}

// add says no while the proxy is cut.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.links[l] = struct{}{}
	return true
}
