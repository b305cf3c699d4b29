package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// pusher pushes jobs with so many in flight on one connection.
type pusher struct {
	*session

	// at, where it is set, is when all are due; else each has a delay of its own.
	at time.Time
	// slots has the number of jobs of each push that is out.
	slots  chan int
	failed chan error
	sub    *nats.Subscription
	data   []byte
	// streamed says that a stream confirmed pushes, on their way to the bridge.
	streamed atomic.Bool
}

func (s *session) pusher(at time.Time) (*pusher, error) {
	p := &pusher{session: s, at: at, slots: make(chan int, s.InFlight), failed: make(chan error, 1)}
	var err error
	if p.sub, err = s.nc.Subscribe(s.nc.NewInbox(), p.answer); err != nil {
		return nil, fmt.Errorf("subscribe answers: %w", err)
	}
	return p, nil
}

// answer takes the oldest slot: with arrays of one size it does not matter whose it is.
func (p *pusher) answer(msg *nats.Msg) {
	switch {
	case bytes.HasPrefix(msg.Data, []byte(`{"code":200,`)):
	case bytes.HasPrefix(msg.Data, []byte(`{"stream":`)):
		p.streamed.Store(true)
	default:
		p.fail(fmt.Errorf("push: %.200s", msg.Data))
	}
	p.Progress.pushed.Add(int64(<-p.slots))
}

func (p *pusher) fail(err error) {
	select {
	case p.failed <- err:
	default: // the first one is told
	}
}

// all pushes all jobs and waits for the answers.
func (p *pusher) all(ctx context.Context) error {
	defer p.end(ctx)
	began := p.Now()
	for first := 0; first < p.Jobs; first += p.Batch {
		if err := p.turn(ctx, began, first); err != nil {
			return err
		}
		if err := p.push(ctx, first, min(p.Batch, p.Jobs-first)); err != nil {
			return err
		}
	}
	answered := func() bool { return len(p.slots) == 0 || len(p.failed) > 0 }
	err := p.wait(ctx, p.Patience, p.Progress.pushed.Load, answered)
	if err == nil && len(p.slots) > 0 {
		p.fail(errNoAnswer)
	}
	select {
	case failed := <-p.failed:
		return failed
	default:
		return err
	}
}

// turn waits until it is time for job i, and until there is room for it.
func (p *pusher) turn(ctx context.Context, began time.Time, i int) error {
	if p.Rate > 0 {
		at := began.Add(time.Duration(float64(i) / p.Rate * float64(time.Second)))
		if err := pause(ctx, at.Sub(p.Now())); err != nil {
			return err
		}
	}
	room := func() bool { return p.Outstanding == 0 || int64(i)-p.Progress.delivered.Load() < int64(p.Outstanding) }
	if room() {
		return nil
	}
	if err := p.wait(ctx, p.MaxDelay+p.Patience, p.Progress.delivered.Load, room); err != nil {
		return err
	}
	if !room() {
		return errors.New("no job comes any more")
	}
	return nil
}

// end waits for the answers that are still out, also after an interrupt: what they stand for would be stored unnoticed.
func (p *pusher) end(ctx context.Context) {
	const answers = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answers)
	defer cancel()
	_ = p.wait(ctx, p.Patience, p.Progress.pushed.Load, func() bool { return len(p.slots) == 0 }) // it is enough to have tried
	_ = p.sub.Unsubscribe()                                                                       // fails only where the connection is gone
}

var errNoAnswer = errors.New("pushes are not answered")

func (p *pusher) push(ctx context.Context, first, jobs int) error {
	if err := p.slot(ctx, jobs); err != nil {
		return err
	}
	p.data = p.data[:0]
	for i := first; i < first+jobs; i++ {
		if p.Batch > 1 {
			p.data = append(p.data, separator(i-first))
		}
		p.data = p.job(p.data, i)
	}
	if p.Batch > 1 {
		p.data = append(p.data, ']')
	}
	if err := p.nc.PublishRequest(p.Prefix+".push", p.sub.Subject, p.data); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

// slot waits for one.
func (p *pusher) slot(ctx context.Context, jobs int) error {
	select {
	case p.slots <- jobs:
		return nil
	default:
	}
	patience := time.NewTimer(p.Patience)
	defer patience.Stop()
	select {
	case p.slots <- jobs:
		return nil
	case err := <-p.failed:
		return err
	case <-patience.C:
		return errNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// job appends the JSON of job i.
func (p *pusher) job(data []byte, i int) []byte {
	data = append(data, `{"topic":"`...)
	data = append(data, p.topic(i)...)
	if p.at.IsZero() {
		delay := p.MinDelay
		if spread := p.MaxDelay - p.MinDelay; spread > 0 {
			delay += rand.N(spread)
		}
		data = append(data, `","delay":`...)
		data = strconv.AppendFloat(data, delay.Seconds(), 'f', 3, 64)
	} else {
		data = p.at.UTC().AppendFormat(append(data, `","at":"`...), "2006-01-02T15:04:05.000Z")
		data = append(data, '"')
	}
	data = append(data, `,"ttr":`...)
	data = strconv.AppendFloat(data, p.TTR.Seconds(), 'f', 3, 64)
	data = append(data, `,"body":`...)
	data = body(data, i, p.Size)
	return append(data, '}')
}

// separator stands before element i of a JSON array.
func separator(i int) byte {
	if i == 0 {
		return '['
	}
	return ','
}
