package rawconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair gives both ends of a TCP connection; the first is wrapped.
func pair(t *testing.T) (net.Conn, *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := Dialer(&net.Dialer{})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	_, _ = conn.SetDeadline(deadline), other.SetDeadline(deadline)
	t.Cleanup(func() { conn.Close(); other.Close() })
	return conn, other.(*net.TCPConn)
}

// TestCarries sends pieces of all sizes both ways, of which some are longer than what a socket holds.
func TestCarries(t *testing.T) {
	t.Parallel()
	conn, other := pair(t)
	all := bytes.Repeat([]byte("dqbridge "), 1<<20)
	for _, ends := range []struct {
		name     string
		from, to net.Conn
	}{{"written", conn, other}, {"read", other, conn}} {
		wrote := make(chan error, 1)
		go func() {
			rest := all
			for size := 1; len(rest) > 0; size = size*3 + 1 {
				if size > 1<<20 {
					size = 1
				}
				n, err := ends.from.Write(rest[:min(size, len(rest))])
				if err != nil {
					wrote <- err
					return
				}
				rest = rest[n:]
			}
			wrote <- nil
		}()
		got := make([]byte, len(all))
		if _, err := io.ReadFull(ends.to, got); err != nil || !bytes.Equal(got, all) {
			t.Errorf("%s: error %v, or other bytes than were sent", ends.name, err)
		}
		if err := <-wrote; err != nil {
			t.Errorf("%s: %v", ends.name, err)
		}
	}
}

// usual counts what goes the usual way.
type usual struct {
	net.Conn
	reads, writes int
}

func (u *usual) Read(p []byte) (int, error) {
	u.reads++
	return u.Conn.Read(p)
}

func (u *usual) Write(p []byte) (int, error) {
	u.writes++
	return u.Conn.Write(p)
}

// TestUsualWay: the runtime hears of what is long, and of a connection that always has something to read.
func TestUsualWay(t *testing.T) {
	t.Parallel()
	conn, other := pair(t)
	raw := conn.(*rawConn)
	way := &usual{Conn: raw.Conn}
	raw.Conn = way
	sink := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, other, 2*short-1)
		sink <- err
	}()
	_, _ = conn.Write(make([]byte, short-1))
	if way.writes != 0 {
		t.Error("a short write goes the usual way")
	}
	_, _ = conn.Write(make([]byte, short))
	if way.writes != 1 {
		t.Error("a long write goes another way")
	}
	if err := <-sink; err != nil {
		t.Fatal(err)
	}

	const bytesRead = 10 * inARow
	_, _ = other.Write(make([]byte, bytesRead))
	for range bytesRead { // the first alone waits, if any does
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if least := bytesRead/(inARow+1) - 1; way.reads < least || way.reads > bytesRead/inARow {
		t.Errorf("of %d reads that find something at once, %d went the usual way, not %d", bytesRead, way.reads, least+1)
	}
}

// TestShortWritesWait fills the socket with short writes alone.
func TestShortWritesWait(t *testing.T) {
	t.Parallel()
	conn, other := pair(t)
	piece := bytes.Repeat([]byte("x"), 1000)
	const pieces = 20000
	wrote := make(chan error, 1)
	go func() {
		for range pieces {
			if n, err := conn.Write(piece); n != len(piece) || err != nil {
				wrote <- errors.Join(err, io.ErrShortWrite)
				return
			}
		}
		wrote <- conn.Close()
	}()
	got, err := io.Copy(io.Discard, other)
	if err != nil || got != pieces*int64(len(piece)) {
		t.Errorf("%d bytes came, error %v", got, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(conn net.Conn, other *net.TCPConn)
		want error
	}{
		{"the other end closes", func(_ net.Conn, other *net.TCPConn) { other.Close() }, io.EOF},
		{"the other end resets", func(_ net.Conn, other *net.TCPConn) { _ = other.SetLinger(0); other.Close() }, syscall.ECONNRESET},
		{"this end closes", func(conn net.Conn, _ *net.TCPConn) { conn.Close() }, net.ErrClosed},
		{"the deadline passes", func(conn net.Conn, _ *net.TCPConn) { _ = conn.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			conn, other := pair(t)
			result := make(chan error, 1)
			go func() {
				_, err := conn.Read(make([]byte, 10))
				result <- err
			}()
			row.end(conn, other)
			err := <-result
			if !errors.Is(err, row.want) {
				t.Errorf("read gives %v, not %v", err, row.want)
			}
			if op := (*net.OpError)(nil); !errors.Is(err, io.EOF) && (!errors.As(err, &op) || op.Op != "read") {
				t.Errorf("read gives %v, which does not say what it did", err)
			}
		})
	}
}

// TestWriteFails ends the other side: sooner or later a write says so.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	conn, other := pair(t)
	_ = other.SetLinger(0)
	other.Close()
	var err error
	for range 1000 {
		if _, err = conn.Write([]byte("x")); err != nil {
			break
		}
	}
	if op := (*net.OpError)(nil); !errors.As(err, &op) || op.Op != "write" {
		t.Errorf("write gives %v", err)
	}
}

// TestLook is what go-redis does before it uses a connection that it kept.
func TestLook(t *testing.T) {
	t.Parallel()
	conn, other := pair(t)
	look := func() error {
		socket, is := conn.(syscall.Conn)
		if !is {
			t.Fatal("the connection cannot be looked at")
		}
		fd, err := socket.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		return fd.Read(func(uintptr) bool { return true })
	}
	refused := func() bool {
		deadline := time.Now().Add(10 * time.Second)
		for look() == nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		return look() != nil
	}
	if err := look(); err != nil {
		t.Errorf("a good connection: %v", err)
	}
	_, _ = other.Write([]byte("x"))
	if !refused() {
		t.Error("unasked bytes are not seen")
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil || look() != nil {
		t.Errorf("looking took the bytes away: %v, %v", err, look())
	}
	other.Close()
	if !refused() {
		t.Error("the end is not seen")
	}
}

// TestOthersStay: what is no socket of the kernel is given back as it is.
func TestOthersStay(t *testing.T) {
	t.Parallel()
	one, two := net.Pipe()
	defer one.Close()
	defer two.Close()
	if Wrap(one) != one {
		t.Error("a pipe in memory is wrapped")
	}
}
