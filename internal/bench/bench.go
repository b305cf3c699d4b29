// Package bench puts load on a running bridge, from outside, over NATS alone, and checks what comes back.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Options are for all workloads.
type Options struct {
	// Prefix is the bridge's; Topic must be of this run alone.
	Prefix, Topic string
	// Jobs is how many are pushed in all.
	Jobs int
	// Size is the bytes of a body.
	Size int
	// InFlight is how many pushes wait for their answers at once.
	InFlight int
	// Batch is how many jobs one push carries.
	Batch int
	// Rate is jobs a second; 0: as many as it takes.
	Rate float64
	// MinDelay and MaxDelay bound the delays, drawn evenly.
	MinDelay, MaxDelay time.Duration
	// Workers is how many connections take jobs.
	Workers int
	// TTR of the jobs.
	TTR time.Duration
	Now func() time.Time
	// Connect makes a connection of its own for each worker.
	Connect func() (*nats.Conn, error)
}

// Check says what is wrong with o, or nil.
func (o *Options) Check() error {
	switch {
	case o.Jobs < 1 || o.InFlight < 1 || o.Batch < 1 || o.Workers < 1:
		return errors.New("jobs, in flight, batch and workers must be 1 or more")
	case o.Size < 2:
		return errors.New("size must be 2 or more: a body is a quoted string")
	case o.MinDelay < 0 || o.MaxDelay < o.MinDelay:
		return errors.New("the delays must be 0 or more, the longest no less than the shortest")
	case o.Batch > 1000:
		return errors.New("batch must be 1000 or less")
	}
	return nil
}

// job appends the JSON of a job that is due after a delay, or at a moment.
func (o *Options) job(p []byte, id string, delay time.Duration, at time.Time) []byte {
	p = append(p, `{"id":"`...)
	p = append(p, id...)
	p = append(p, `","topic":"`...)
	p = append(p, o.Topic...)
	if at.IsZero() {
		p = append(p, `","delay":`...)
		p = strconv.AppendFloat(p, delay.Seconds(), 'f', 3, 64)
	} else {
		p = at.UTC().AppendFormat(append(p, `","at":"`...), "2006-01-02T15:04:05.000Z")
		p = append(p, '"')
	}
	p = append(p, `,"ttr":`...)
	p = strconv.AppendFloat(p, o.TTR.Seconds(), 'f', 3, 64)
	p = append(p, `,"body":"`...)
	p = append(p, bytes.Repeat([]byte("x"), o.Size-2)...)
	return append(p, `"}`...)
}

// wait waits for a condition until ctx is over.
func wait(ctx context.Context, what string, condition func() bool) error {
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	for !condition() {
		select {
		case <-check.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}
