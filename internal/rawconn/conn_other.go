//go:build !linux

package rawconn

import "net"

// Wrap gives conn as it is.
func Wrap(conn net.Conn) net.Conn { return conn }
