package testenv

import "sync"

// Moment is where on its way a request is caught.
type Moment int

// The two moments.
const (
	BeforeRequest Moment = iota // the server lacks the last byte of it, so it does nothing
	BeforeReply                 // the server has carried it out, and its client does not know
)

// catch holds up the requests that match, each with the connection that it is on.
type catch struct {
	at    Moment
	match func(words []string) bool // called under the proxy's mu
	once  sync.Once
	held  chan struct{} // closed when the first request is held
	let   chan struct{} // closed by Heal
}

// Catch holds up every request to a Redis that match says yes to, and all behind it on its connection, until Heal lets
// it go on or Drop loses it. match is asked for one request after the other, with its first two words. The channel is
// closed once a request is held at that moment.
func (p *Proxy) Catch(at Moment, match func(words []string) bool) <-chan struct{} {
	c := &catch{at: at, match: match, held: make(chan struct{}), let: make(chan struct{})}
	p.change(func() { p.catch = c })
	return c.held
}

// catches gives the catch that wants this request of l, or nil; its reply is held from now on, where that is wanted.
func (p *Proxy) catches(l *link, words []string) *catch {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.catch
	if c == nil || !c.match(words) {
		return nil
	}
	if c.at == BeforeReply {
		l.mute = c
	}
	return c
}

// muted gives the catch that holds the replies of l, or nil.
func (p *Proxy) muted(l *link) *catch {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.mute
}

// hold waits until the catch lets go; false when the link was closed meanwhile.
func (c *catch) hold(l *link) bool {
	c.once.Do(func() { close(c.held) })
	return c.wait(l)
}

func (c *catch) wait(l *link) bool {
	select {
	case <-c.let:
		return true
	case <-l.done:
		return false
	}
}
