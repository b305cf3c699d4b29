// Package rawconn makes connections whose short reads and writes the Go runtime hears nothing of.
//
// A goroutine that enters a system call wakes up the runtime's watch (sysmon in runtime/proc.go), which sleeps while a
// process is idle: it is there to take the processor from a call that blocks. For a process that wakes up for one message at
// a time that is another thread, some sleeps of 20 µs and a quarter of its work, for calls on a socket that never block. So
// these are made without telling the runtime. While there is a lot to do the watch is needed, since it also takes the
// processor from a goroutine that never waits: what is long goes the usual way, and so does a read after many that had
// nothing to wait for.
package rawconn

import (
	"context"
	"net"
)

// Dialer gives a function that dials with d, as the options of clients want it.
func Dialer(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Wrap(conn), nil
	}
}
