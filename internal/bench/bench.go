// Package bench puts load on a running bridge, from outside, over NATS alone, and checks what comes back.
package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Options are for all workloads.
type Options struct {
	// Prefix is the bridge's; Topic must be of this run alone: the jobs go to Topics topics below it.
	Prefix, Topic string
	Topics        int
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
	// Outstanding bounds the jobs that steady has pushed and not seen delivered; it means nothing to the others.
	Outstanding int
	// MinDelay and MaxDelay bound the delays, drawn evenly.
	MinDelay, MaxDelay time.Duration
	// Workers is how many connections take jobs.
	Workers int
	// TTR of the jobs.
	TTR time.Duration
	// Patience is how long nothing may come of what is overdue, an answer or a job, before it counts as lost.
	Patience time.Duration
	Now      func() time.Time
	// Connect makes a connection of its own for each worker.
	Connect func() (*nats.Conn, error)
	// Progress is kept up to date where it is not nil.
	Progress *Progress
}

// least is the smallest body: a JSON string that holds the number of its job.
const least = numberDigits + 2

// Check says what is wrong with o, or nil.
func (o *Options) Check() error {
	const mostBatch, mostTopics = 1000, 1000
	switch {
	case o.Jobs < 1 || o.InFlight < 1 || o.Batch < 1 || o.Workers < 1 || o.Topics < 1 || o.Outstanding < 1:
		return errors.New("jobs, in flight, batch, workers, topics and outstanding must be 1 or more")
	case o.Size < least:
		return fmt.Errorf("size must be %d or more: a body holds the number of its job", least)
	case o.Jobs >= mostJobs:
		return fmt.Errorf("jobs must be less than %d", mostJobs)
	case o.MinDelay < 0 || o.MaxDelay < o.MinDelay:
		return errors.New("the delays must be 0 or more, the longest no less than the shortest")
	case o.Batch > mostBatch:
		return fmt.Errorf("batch must be %d or less", mostBatch)
	case o.Topics > mostTopics:
		return fmt.Errorf("topics must be %d or less", mostTopics)
	case o.Rate < 0 || o.Patience <= 0:
		return errors.New("rate must be 0 or more, and patience more than 0")
	}
	return nil
}

// topic is that of job i.
func (o *Options) topic(i int) string { return o.Topic + "." + strconv.Itoa(i%o.Topics) }

// Progress is how far a run has come. A screen reads it while the run goes on.
type Progress struct {
	pushed, delivered counter
}

// Counts gives the jobs that are confirmed, and those that were delivered.
func (p *Progress) Counts() (int64, int64) { return p.pushed.Load(), p.delivered.Load() }

// run does a workload and removes what it leaves behind, also when it fails or is interrupted.
func run(ctx context.Context, o Options, workload string, do func(context.Context, *session) (Result, error)) (Result, error) {
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	nc, err := o.Connect()
	if err != nil {
		return Result{}, err
	}
	defer nc.Close()
	s := &session{Options: o, nc: nc, tally: newTally(o.Now, o.Jobs)}
	r, err := do(ctx, s)
	r.Workload = workload
	if err == nil && r.Delivered == o.Jobs {
		return r, nil // nothing is left
	}
	return r, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

// session is one run.
type session struct {
	Options

	nc    *nats.Conn
	tally *tally
}

// wait looks every millisecond whether a condition holds. It gives up, without an error, when moved has not changed for
// so long, and with one when ctx is over.
func (s *session) wait(ctx context.Context, patience time.Duration, moved func() int64, condition func() bool) error {
	check := time.NewTicker(time.Millisecond)
	defer check.Stop()
	last, at := moved(), s.Now()
	for !condition() {
		if n := moved(); n != last {
			last, at = n, s.Now()
		} else if s.Now().Sub(at) > patience {
			return nil
		}
		select {
		case <-check.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pause waits so long.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
