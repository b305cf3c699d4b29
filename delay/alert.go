package delay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/dqbridge/dqbridge/internal/rawconn"
)

// keepAlive is how often a silent connection is tried, as the client's own dialer does.
const keepAlive = 5 * time.Minute

// dialer gives the function that makes connections; security is nil for those without TLS, and with it they tell why the
// server ended them. It is tls.Dialer's work, on a connection of rawconn, which that cannot be given.
func dialer(security *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := rawconn.Dialer(&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive})
	if security == nil {
		return plain
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := security.Clone() // each node's certificate is held against the name that was dialled
		if own.ServerName, _, err = net.SplitHostPort(address); err != nil {
			own.ServerName = address // a socket
		}
		secured := tls.Client(conn, own)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // it was never used
			return nil, err
		}
		return alertConn{secured}, nil
	}
}

// alertConn is a TLS connection. In TLS 1.3 a client has shaken hands before the server has looked at its certificate: where
// that is not good, the server sends an alert and hangs up, and the client, which writes first, only learns of the second.
type alertConn struct{ net.Conn }

// Write gives the server's alert, where there is one, for the error of a connection that was ended.
func (c alertConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		_, last := c.Read(make([]byte, 1)) // does not wait: the connection is over
		if alert, is := errors.AsType[*net.OpError](last); is && alert.Op == "remote error" {
			return n, last
		}
	}
	return n, err
}
