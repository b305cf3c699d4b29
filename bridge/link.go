package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/rawconn"
)

// LinkOptions say where NATS is.
type LinkOptions struct {
	// URL holds one or more server URLs, comma separated.
	URL string
	// Creds, NKey, CA, Cert and Key are files; empty: none.
	Creds, NKey, CA, Cert, Key string
	Log                        zerolog.Logger
	// Now is the local clock; only its differences count.
	Now func() time.Time
	// Pause is how long to wait before another try to connect, after so many; nil: up to a second, longer each time.
	Pause func(tries int) time.Duration
}

const (
	// pingEvery and pingsOut find out a dead link within 6 s where nothing else does.
	pingEvery = 2 * time.Second
	pingsOut  = 2
	// maxReconnectWait bounds the pause between two tries to connect.
	maxReconnectWait = time.Second
	// fenceAfter is the age of a lease from which on nothing is written.
	fenceAfter = delay.LeaseTime - time.Second
	// maxLine is how long subject and reply subject of a message may be together: a server takes lines of 4,096 bytes, and
	// there are two sizes beside them.
	maxLine = 4096 - 32
	// tellAgain is how soon an error that NATS repeats is told again.
	tellAgain = time.Minute
	// maxDenied bounds how many refused subjects are remembered.
	maxDenied = 10_000
)

// Link is the connection to NATS. It never gives up, and it never keeps a message for later: what cannot be sent now
// is an error, since a copy that arrives after its lease would be a delivery that nobody asked for.
type Link struct {
	*nats.Conn

	// mu guards what follows: the socket of the present connection, and the errors and refusals to publish that were told.
	mu  sync.Mutex
	raw net.Conn
	// denied holds for each subject the number of its last refusal; refusals counts them, lastRefusal is the newest.
	denied      map[string]int
	refusals    int
	lastRefusal error
	slow        slowConsumers
	// told is the error of the connection that the log has last, and toldAt since when.
	told   string
	toldAt time.Time
	// changed has room for one note that the connection came or went.
	changed chan struct{}
	// reconnected has room for one note that there is a new connection.
	reconnected chan struct{}
	log         zerolog.Logger
	now         func() time.Time
	// oldest is when the oldest batch was leased that the server may not have yet; nil: there is none.
	oldest atomic.Pointer[time.Time]
}

// Connect makes a link. A server that is not there yet is no error.
func Connect(o LinkOptions) (*Link, error) {
	l := &Link{changed: make(chan struct{}, 1), reconnected: make(chan struct{}, 1), denied: make(map[string]int), log: o.Log, now: o.Now}
	pause := o.Pause
	if pause == nil {
		pause = reconnectDelay
	}
	options := []nats.Option{
		nats.Name("dqbridge"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut),
		nats.SetCustomDialer(l), nats.CustomReconnectDelay(pause),
		nats.ConnectHandler(func(*nats.Conn) { l.note() }),
		nats.ReconnectHandler(func(*nats.Conn) {
			l.note()
			select {
			case l.reconnected <- struct{}{}:
			default:
			}
		}),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.note() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if misfit := (*misfitError)(nil); errors.As(advised(err), &misfit) { // what passes by itself is told once, by health
				l.asyncError(nil, nil, err)
			}
		}),
		nats.ErrorHandler(l.asyncError),
	}
	files, err := o.files()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(o.URL, append(options, files...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", advised(err))
	}
	l.Conn = conn
	return l, nil
}

// Dial is what nats.go calls for a new connection.
func (l *Link) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.raw = conn
	l.mu.Unlock()
	return &fencedConn{Conn: rawconn.Wrap(conn), link: l}, nil
}

// fencedConn writes no message whose lease is over: a process that was stopped in the middle of a batch, and goes on,
// must not deliver what others have delivered and finished meanwhile. What is buffered is lost with the connection.
type fencedConn struct {
	net.Conn
	link *Link
}

var errOldLease = errors.New("messages wait whose leases are over")

// Write implements io.Writer.
func (c *fencedConn) Write(p []byte) (int, error) {
	if oldest := c.link.oldest.Load(); oldest != nil && c.link.now().Sub(*oldest) > fenceAfter {
		_ = c.Close() // the connection is given up
		return 0, errOldLease
	}
	return c.Conn.Write(p)
}

// errLongSubject is an error of one message: nats.go would send it, and the server would close the connection for good.
var errLongSubject = fmt.Errorf("%w: with its reply subject it is longer than a line of the protocol may be", nats.ErrBadSubject)

// PublishMsg refuses a message whose subjects take more than a line.
func (l *Link) PublishMsg(msg *nats.Msg) error {
	if len(msg.Subject)+len(msg.Reply) > maxLine {
		return errLongSubject
	}
	return l.Conn.PublishMsg(msg)
}

// Publish is as PublishMsg.
func (l *Link) Publish(subject string, data []byte) error {
	if len(subject) > maxLine {
		return errLongSubject
	}
	return l.Conn.Publish(subject, data)
}

// flush waits until the server has read what was sent, and not at all where there is no connection.
func (l *Link) flush() error {
	if !l.IsConnected() {
		return errAway
	}
	return l.FlushTimeout(flushTimeout)
}

// cut drops the connection without sending what is buffered; it is made anew by itself.
func (l *Link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw != nil {
		_ = l.raw.Close()
	}
}

func reconnectDelay(attempts int) time.Duration {
	wait := min(maxReconnectWait, 20*time.Millisecond<<min(attempts, 10))
	return wait/2 + rand.N(wait/2)
}

func (l *Link) note() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *Link) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if told := advised(err); l.isNews(told) {
		event := l.log.Error().Err(told)
		if sub != nil {
			event = event.Str("subject", sub.Subject)
		}
		event.Msg("nats reports an error")
	}
	if errors.Is(err, nats.ErrSlowConsumer) && sub != nil {
		l.slow.note(sub)
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
	l.lastRefusal = err
	if len(l.denied) >= maxDenied {
		clear(l.denied)
	}
	// nats.go tells the subject only in its text, in quotes.
	if parts := strings.SplitN(err.Error(), `"`, 3); len(parts) == 3 {
		l.denied[parts[1]] = l.refusals
	}
}

// isNews reports whether an error was not told just now: one that refuses each try to connect would flood the log.
func (l *Link) isNews(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err.Error() == l.told && l.now().Sub(l.toldAt) < tellAgain {
		return false
	}
	l.told, l.toldAt = err.Error(), l.now()
	return true
}

// refused gives how many refusals to publish were told so far.
func (l *Link) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals
}

// deniedSince reports whether publishing on subject was refused after the first n refusals.
func (l *Link) deniedSince(subject string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied[subject] > n
}

// caughtUp reports whether the newest refusal that the connection has read was told to asyncError, which runs later.
func (l *Link) caughtUp() bool {
	newest := l.LastError()
	if !errors.Is(newest, nats.ErrPermissionViolation) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Is(l.lastRefusal, newest)
}
