package delay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"
)

// keepAlive is how often a silent connection is tried, as the client's own dialer does.
const keepAlive = 5 * time.Minute

// dialTLS gives a dialer whose connections tell why the server ended them.
func dialTLS(security *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}, Config: security}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return alertConn{conn}, nil
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
