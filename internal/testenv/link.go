package testenv

import (
	"net"
	"sync"
	"time"
)

// link is one connection through a Proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed by close
	lost           bool          // bytes of it were swallowed; guarded by the proxy's mu
	mute           *catch        // holds its replies; nil: nothing does; guarded by the proxy's mu
	requests       requests      // used by the pump to the server alone
}

// chunk is bytes on their way; arrives fires when their delay is over.
type chunk struct {
	data    []byte
	arrives <-chan time.Time
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// pump carries one direction. Reading and writing are apart, so that a delay does not cost throughput.
func (l *link) pump(dir Direction, from, to net.Conn) {
	const chunksUnderWay = 256
	queue := make(chan chunk, chunksUnderWay)
	var reader sync.WaitGroup
	reader.Go(func() { l.read(dir, from, queue) })
	defer reader.Wait()
	defer l.close()
	for c := range queue {
		if !l.deliver(dir, c, to) {
			return
		}
	}
}

func (l *link) read(dir Direction, from net.Conn, queue chan<- chunk) {
	defer close(queue)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			c := chunk{data: buffer[:n], arrives: time.NewTimer(l.proxy.way(dir).delay).C}
			select {
			case queue <- c:
			case <-l.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver says whether the link can go on.
func (l *link) deliver(dir Direction, c chunk, to net.Conn) bool {
	if !l.wait(dir, c) {
		return false
	}
	if l.proxy.loses(l, dir) {
		return true
	}
	if dir == ToServer {
		return l.send(c.data, to)
	}
	if muted := l.proxy.muted(l); muted != nil && !muted.hold(l) {
		return false
	}
	return write(to, c.data)
}

// send passes requests on, up to one that is caught.
func (l *link) send(data []byte, to net.Conn) bool {
	sent := 0
	for at := 0; at < len(data); {
		n, words := l.requests.next(data[at:])
		at += n
		if words == nil {
			continue
		}
		c := l.proxy.catches(l, words)
		if c == nil {
			continue
		}
		until, hold := at, c.wait // the pump of the replies says when it is held
		if c.at == BeforeRequest {
			until, hold = at-1, c.hold
		}
		if !write(to, data[sent:until]) || !hold(l) {
			return false
		}
		sent = until
	}
	return write(to, data[sent:])
}

func write(to net.Conn, data []byte) bool {
	_, err := to.Write(data)
	return err == nil
}

// wait lets the delay and a hold pass; false when the link was closed meanwhile.
func (l *link) wait(dir Direction, c chunk) bool {
	select {
	case <-c.arrives:
	case <-l.done:
		return false
	}
	for {
		held := l.proxy.way(dir).held
		if held == nil {
			return true
		}
		select {
		case <-held:
		case <-l.done:
			return false
		}
	}
}
