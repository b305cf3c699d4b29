package delay

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// endedConn is a connection that the server has ended, with or without a last word.
type endedConn struct {
	net.Conn
	wrote, read error
}

func (c endedConn) Write([]byte) (int, error) { return 0, c.wrote }
func (c endedConn) Read([]byte) (int, error)  { return 0, c.read }

func TestAlertIsTold(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "write", Err: syscall.ECONNRESET}
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	for name, row := range map[string]struct {
		conn endedConn
		want error
	}{
		"alert":          {endedConn{wrote: reset, read: alert}, alert},
		"no alert":       {endedConn{wrote: reset, read: io.EOF}, reset},
		"another reason": {endedConn{wrote: io.ErrShortWrite, read: alert}, io.ErrShortWrite},
		"none":           {endedConn{}, nil},
	} {
		if _, err := (alertConn{row.conn}).Write(nil); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, should be %v", name, err, row.want)
		}
	}
}
