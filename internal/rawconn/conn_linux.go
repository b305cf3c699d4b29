package rawconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

const (
	// short is below what the clients read or write at once where there is a lot: their buffers are as long.
	short = 32 << 10
	// inARow is how many reads may find something at once before one goes the usual way.
	inARow = 16
)

// Wrap gives a connection that reads and writes by raw calls where conn is one of the kernel's sockets, else conn itself.
func Wrap(conn net.Conn) net.Conn {
	socket, is := conn.(syscall.Conn)
	if !is {
		return conn
	}
	fd, err := socket.SyscallConn()
	if err != nil {
		return conn
	}
	c := &rawConn{Conn: conn, fd: fd}
	c.in.try, c.out.try = c.in.read, c.out.write
	return c
}

// rawConn is a socket in the runtime's poller: its calls do not block, and what they cannot do yet waits there.
type rawConn struct {
	net.Conn
	fd      syscall.RawConn
	in, out transfer
}

// transfer is one direction of a connection and the call under way.
type transfer struct {
	mu sync.Mutex
	// p is what is read into or written, of which n bytes are done; err is how the last call failed, 0 for not at all.
	p   []byte
	n   int
	err syscall.Errno
	// try is the method that makes calls until it can go on no longer, and reports whether it is done.
	try func(fd uintptr) bool
	// long says that the last read found a lot; ready is how many found something at once, one after the other.
	long  bool
	ready int
}

// begin sets a transfer of p up. The caller holds mu.
func (t *transfer) begin(p []byte) { t.p, t.n, t.err = p, 0, 0 }

// end gives what came of a transfer on c, where err is what the poller says. The caller holds mu.
func (t *transfer) end(c *rawConn, name string, err error) (int, error) {
	t.p = nil
	if op, is := errors.AsType[*net.OpError](err); is {
		err = op.Err // the poller names its own call
	}
	if err == nil && t.err != 0 {
		err = os.NewSyscallError(name, t.err)
	}
	if err != nil {
		err = &net.OpError{Op: name, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return t.n, err
}

// Read implements io.Reader.
func (c *rawConn) Read(p []byte) (int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if len(p) == 0 || c.in.long || c.in.ready >= inARow {
		n, err := c.Conn.Read(p)
		c.in.long, c.in.ready = n >= short, 0
		return n, err
	}
	c.in.begin(p)
	c.in.ready++
	n, err := c.in.end(c, "read", c.fd.Read(c.in.try))
	c.in.long = n >= short
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (t *transfer) read(fd uintptr) bool {
	t.n, t.err = Read(fd, t.p)
	if t.err == syscall.EAGAIN {
		t.err, t.ready = 0, 0
		return false
	}
	return true
}

// Write implements io.Writer.
func (c *rawConn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if len(p) == 0 || len(p) >= short {
		return c.Conn.Write(p)
	}
	c.out.begin(p)
	return c.out.end(c, "write", c.fd.Write(c.out.try))
}

func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, err := call(syscall.SYS_WRITE, fd, t.p[t.n:], 0)
		if err == syscall.EAGAIN {
			return false
		}
		if err != 0 {
			t.err = err
			return true
		}
		t.n += n
	}
	return true
}

// Read makes one raw call to read from a descriptor of the runtime's poller into p, which is not empty. It gives EAGAIN
// where there is nothing yet.
func Read(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_READ, fd, p, 0) }

// call makes a raw call about a piece of memory that is not empty, again while a signal keeps it from its work.
func call(number, fd uintptr, p []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(flags), 0, 0)
		switch err {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// SyscallConn implements syscall.Conn for go-redis, which looks with it whether a connection it kept is still good. Its
// look is a system call like any other, so what this gives looks by itself.
func (c *rawConn) SyscallConn() (syscall.RawConn, error) { return lookingConn{c.fd}, nil }

// lookingConn is the descriptor of a connection nobody reads from at the moment.
type lookingConn struct{ syscall.RawConn }

var errUnasked = errors.New("the connection has what nobody asked for")

// Read does not call its function, but gives an error where the connection is over, or has something to read.
func (c lookingConn) Read(func(fd uintptr) bool) error {
	var found error
	err := c.Control(func(fd uintptr) {
		n, err := call(syscall.SYS_RECVFROM, fd, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN:
		case err != 0:
			found = err
		case n == 0:
			found = io.EOF
		default:
			found = errUnasked
		}
	})
	return errors.Join(err, found)
}
