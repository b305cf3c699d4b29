// Package peers starts the systems that are measured, each with servers of its own on loopback, and puts one interface
// before them: jobs in, jobs out, what is stored, what it costs.
package peers

import (
	"context"
	"time"
)

// Peer is one system under measure. Start and Stop come first and last, and may be repeated: each start is on an empty store.
type Peer interface {
	Name() string
	// Start starts the servers, with what they keep in dir.
	Start(ctx context.Context, dir string) error
	Stop()
	// Processes are the servers by role. The client's part runs in this process and is not among them.
	Processes() map[string]int
	// Due is the moment that a job given in at now can be asked to be due at, for a delay: not all take every moment.
	Due(now time.Time, delay time.Duration) time.Time
	// NewPusher opens the way in. It returns nil where the peer does not know the mode.
	NewPusher(ctx context.Context, mode Mode) (Pusher, error)
	// Work starts n workers, which give each body to take and then ack the job, until stop is called.
	Work(ctx context.Context, n int, take func(body []byte)) (stop func(), err error)
	// Variants are the numbers of workers worth trying: the best counts.
	Variants() []int
	// Stored is how many jobs are in the peer in any state.
	Stored(ctx context.Context) (int, error)
	// Memory is what the peer's store takes, in bytes.
	Memory(ctx context.Context) (int64, error)
	// Options are what the peer runs with.
	Options() []Option
}

// Mode is how jobs are given in.
type Mode int

// The modes.
const (
	// Single is one job a request, confirmed, 64 requests in flight on one connection.
	Single Mode = iota
	// Batch is the fastest confirmed way the peer has, with few in flight where it has arrays.
	Batch
	// Flow is Batch with as many in flight as JetStream has, some 1,000 jobs.
	Flow
)

// inFlight is how many single pushes wait for their answers at once.
const inFlight = 64

// Pusher gives jobs in. It is for one goroutine.
type Pusher interface {
	// Push gives a job in, due at a moment that Due gave; it may be sent later, with others. It blocks while enough are in flight.
	Push(ctx context.Context, body []byte, due time.Time) error
	// Flush sends what is held back, waits until all is confirmed, and says what was not.
	Flush(ctx context.Context) error
	Close()
}

// Option is a setting that a peer runs with, and why.
type Option struct{ Name, Value, Reason string }

// values are options as NAME=value.
func values(options []Option) []string {
	list := make([]string, len(options))
	for i, o := range options {
		list[i] = o.Name + "=" + o.Value
	}
	return list
}
