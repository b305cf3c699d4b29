package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

// ids makes n ids as the bridge would.
func ids(n int) ([]string, error) {
	made := make([]string, n)
	for i := range made {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make id: %w", err)
		}
		made[i] = id.String()
	}
	return made, nil
}

// pusher pushes jobs with so many in flight on one connection.
type pusher struct {
	o  *Options
	nc *nats.Conn
	// slots has an entry for each push that is out.
	slots  chan struct{}
	failed chan error
	sub    *nats.Subscription
	// pace is nil where there is no rate.
	pace *time.Ticker
}

func newPusher(o *Options, nc *nats.Conn) (*pusher, error) {
	p := &pusher{o: o, nc: nc, slots: make(chan struct{}, o.InFlight), failed: make(chan error, 1)}
	var err error
	p.sub, err = nc.Subscribe(nc.NewInbox(), p.answer)
	if err != nil {
		return nil, fmt.Errorf("subscribe answers: %w", err)
	}
	if o.Rate > 0 {
		p.pace = time.NewTicker(time.Duration(float64(time.Second) * float64(o.Batch) / o.Rate))
	}
	return p, nil
}

func (p *pusher) answer(msg *nats.Msg) {
	<-p.slots
	if !bytes.HasPrefix(msg.Data, []byte(`{"code":200,`)) {
		select {
		case p.failed <- fmt.Errorf("push: %.200s", msg.Data):
		default:
		}
	}
}

// run pushes all ids and waits for the answers. at, where it is set, is when all are due.
func (p *pusher) run(ctx context.Context, ids []string, at time.Time) error {
	defer func() { _ = p.sub.Unsubscribe() }() // fails only where the connection is gone
	if p.pace != nil {
		defer p.pace.Stop()
	}
	for len(ids) > 0 {
		n := min(p.o.Batch, len(ids))
		if err := p.push(ctx, ids[:n], at); err != nil {
			return err
		}
		ids = ids[n:]
	}
	err := wait(ctx, "wait for the answers", func() bool { return len(p.slots) == 0 || len(p.failed) > 0 })
	select {
	case failed := <-p.failed:
		return failed
	default:
		return err
	}
}

func (p *pusher) push(ctx context.Context, ids []string, at time.Time) error {
	if p.pace != nil {
		select {
		case <-p.pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case p.slots <- struct{}{}:
	case err := <-p.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	var data []byte
	for i, id := range ids {
		delay := p.o.MinDelay
		if spread := p.o.MaxDelay - p.o.MinDelay; spread > 0 {
			delay += rand.N(spread)
		}
		if p.o.Batch > 1 {
			data = append(data, separator(i))
		}
		data = p.o.job(data, id, delay, at)
	}
	if p.o.Batch > 1 {
		data = append(data, ']')
	}
	if err := p.nc.PublishRequest(p.o.Prefix+".push", p.sub.Subject, data); err != nil {
		return errors.Join(errors.New("push"), err)
	}
	return nil
}

// Push measures confirmed pushes of jobs that are due much later; they are removed at the end.
func Push(ctx context.Context, o Options) (Result, error) {
	nc, err := o.Connect()
	if err != nil {
		return Result{}, err
	}
	defer nc.Close()
	made, err := ids(o.Jobs)
	if err != nil {
		return Result{}, err
	}
	o.MinDelay, o.MaxDelay = time.Hour, time.Hour
	p, err := newPusher(&o, nc)
	if err != nil {
		return Result{}, err
	}
	began := o.Now()
	if err := p.run(ctx, made, time.Time{}); err != nil {
		return Result{}, errors.Join(err, cancel(ctx, nc, o.Prefix, made))
	}
	r := Result{Workload: "push", Jobs: o.Jobs, Seconds: o.Now().Sub(began).Seconds()}
	r.PerSecond = float64(r.Jobs) / r.Seconds
	return r, cancel(ctx, nc, o.Prefix, made)
}

// cancel finishes jobs by their ids, in arrays.
func cancel(ctx context.Context, nc *nats.Conn, prefix string, ids []string) error {
	const part = 500
	for len(ids) > 0 {
		n := min(part, len(ids))
		list := []byte{'['}
		for i, id := range ids[:n] {
			if i > 0 {
				list = append(list, ',')
			}
			list = fmt.Appendf(list, "%q", id)
		}
		if _, err := nc.RequestWithContext(ctx, prefix+".finish", append(list, ']')); err != nil {
			return fmt.Errorf("remove what was pushed: %w", err)
		}
		ids = ids[n:]
	}
	return nil
}

// separator stands before element i of a JSON array.
func separator(i int) byte {
	if i == 0 {
		return '['
	}
	return ','
}
