package dev

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
)

const (
	demoTopic = "demo"
	demoTTR   = 2 * time.Second
	demoQuiet = 2500 * time.Millisecond // longer than the TTR: a finish that did not hold shows up in it
	demoLimit = 15 * time.Second        // for all deliveries; they are due within 3 s
	callLimit = 2 * time.Second         // for one request
)

// DemoOptions of Demo.
type DemoOptions struct {
	Now func() time.Time // the clock of this machine, required

	dropAcks bool          // for tests: the worker answers nothing, so the demonstration must fail
	limit    time.Duration // for tests that fail; 0: demoLimit
}

// Demo pushes a few jobs, works on them as any NATS client would, and tells what happens while it does. It takes about
// five seconds. Its error says which promise of the contract was not kept.
func Demo(ctx context.Context, nc *nats.Conn, prefix string, out io.Writer, o DemoOptions) error {
	d := &demo{
		bridge: client.New(nc, prefix), options: o,
		printer: &printer{out: out, begin: o.Now()},
		jobs:    demoJobs(strings.ToLower(rand.Text()[:6])), seen: make(chan seen, 64),
	}
	worker, err := nc.QueueSubscribe(d.bridge.ReadySubject(demoTopic), "dqbridge-demo", func(msg *nats.Msg) {
		select {
		case d.seen <- seen{msg: msg, at: o.Now()}:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe as a worker: %w", err)
	}
	defer worker.Unsubscribe() //nolint:errcheck // it fails only where the connection is gone, and the worker with it
	if err := nc.FlushTimeout(callLimit); err != nil {
		return fmt.Errorf("subscribe as a worker: %w", err)
	}
	return d.run(ctx)
}

// demo is one demonstration. All but the subscription's callback runs in its caller's goroutine.
type demo struct {
	bridge  client.Client
	options DemoOptions
	printer *printer
	jobs    []*demoJob
	seen    chan seen // what the worker got
}

// seen is a ready message with the moment it arrived.
type seen struct {
	msg *nats.Msg
	at  time.Time
}

// demoJob is one job of the demonstration: what is to happen to it, then what did.
type demoJob struct {
	name  string
	id    string
	delay time.Duration
	plan  plan

	earliest   time.Time // before this moment it must not come, by our own reckoning
	deliveries []delivery
	finished   time.Time // when its finish was confirmed; zero: it was not
	failures   []string
}

type delivery struct {
	at      time.Time
	due     time.Time // as the message says
	attempt int
}

// plan is how the worker settles a job.
type plan int

const (
	planReply  plan = iota // answer the message
	planByID               // dq.finish with the id
	planWait               // leave the first delivery unanswered, answer the second
	planCancel             // finish it before it is due
	planAt                 // as planReply, pushed with a moment instead of a delay
)

func demoJobs(run string) []*demoJob {
	jobs := []*demoJob{
		{name: "at once"},
		{name: "unanswered", delay: 250 * time.Millisecond, plan: planWait},
		{name: "in 0.5 s", delay: 500 * time.Millisecond},
		{name: "finished by id", delay: 750 * time.Millisecond, plan: planByID},
		{name: "in 1 s", delay: time.Second},
		{name: "at a moment", delay: 1500 * time.Millisecond, plan: planAt},
		{name: "in 2 s", delay: 2 * time.Second},
		{name: "cancelled", delay: 3 * time.Second, plan: planCancel},
	}
	for i, job := range jobs {
		job.id = fmt.Sprintf("demo-%s-%d", run, i+1)
	}
	return jobs
}

func (d *demo) run(ctx context.Context) error {
	d.printer.header()
	for _, job := range d.jobs {
		if err := d.push(ctx, job); err != nil {
			return err
		}
		if err := d.work(ctx, 0, func() bool { return len(d.seen) == 0 }); err != nil { // in the order of events
			return err
		}
	}
	for _, job := range d.jobs {
		if job.plan == planCancel {
			d.finishByID(ctx, job, "cancelled")
		}
	}
	if err := d.work(ctx, cmp.Or(d.options.limit, demoLimit), d.allSettled); err != nil {
		return err
	}
	d.printer.say("listening on for %.1f s: nothing more may come", demoQuiet.Seconds())
	if err := d.work(ctx, demoQuiet, func() bool { return false }); err != nil {
		return err
	}
	if err := check(d.jobs); err != nil {
		return err
	}
	d.printer.summary(d.jobs)
	return nil
}

func (d *demo) push(ctx context.Context, job *demoJob) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	now := d.options.Now()
	job.earliest = now.Add(job.delay)
	request := client.Job{
		ID: job.id, Topic: demoTopic, TTR: client.Value(demoTTR.String()), Body: []byte(`"` + job.name + `"`),
	}
	if job.plan == planAt {
		request.At = client.Value(job.earliest.UTC().Format(time.RFC3339Nano))
	} else {
		request.Delay = client.Value(job.delay.String())
	}
	pushed, _, err := d.bridge.Push(ctx, request)
	if err == nil && pushed.Stream != "" && job.plan == planCancel {
		err = d.stored(ctx, job)
	}
	if err != nil {
		return fmt.Errorf("push job %s: %w", job.id, err)
	}
	d.printer.line(d.options.Now(), "pushed", job.name, dueIn(job.delay))
	return nil
}

// work takes what comes until enough says so or the time is over.
func (d *demo) work(ctx context.Context, limit time.Duration, enough func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !enough() {
		select {
		case s := <-d.seen:
			if err := d.take(ctx, s); err != nil {
				return err
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// allSettled: nothing is left to come, if all goes well.
func (d *demo) allSettled() bool {
	for _, job := range d.jobs {
		if job.finished.IsZero() {
			return false
		}
	}
	return true
}

// take is the worker: it notes a delivery and settles it by its job's plan.
func (d *demo) take(ctx context.Context, s seen) error {
	got, err := client.ParseDelivery(s.msg)
	if err != nil {
		return fmt.Errorf("read a delivery: %w", err)
	}
	job := d.find(got.ID)
	if job == nil {
		d.printer.line(s.at, "left over", got.ID, "from an earlier run, finished")
		return d.finishStranger(ctx, s.msg)
	}
	now := delivery{at: s.at, due: got.DueAt, attempt: got.Attempt}
	job.deliveries = append(job.deliveries, now)
	d.printer.delivered(job, now)
	switch {
	case job.plan == planWait && len(job.deliveries) == 1:
		d.printer.line(s.at, "left unanswered", job.name, fmt.Sprintf("its TTR is %v", demoTTR))
	case job.plan == planByID:
		d.finishByID(ctx, job, "finished")
	default:
		d.finishByReply(ctx, job, s.msg)
	}
	return nil
}

func (d *demo) find(id string) *demoJob {
	for _, job := range d.jobs {
		if job.id == id {
			return job
		}
	}
	return nil
}

func (d *demo) finishStranger(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if _, err := d.bridge.Ack(ctx, msg); err != nil {
		return fmt.Errorf("finish a job that was left over: %w", err)
	}
	return nil
}

func (d *demo) finishByReply(ctx context.Context, job *demoJob, msg *nats.Msg) {
	d.finish(ctx, job, "finished", "by reply", func(ctx context.Context) (int, error) {
		return d.bridge.Ack(ctx, msg)
	})
}

// stored waits until the bridge has a job from its stream: before that there is nothing to cancel.
func (d *demo) stored(ctx context.Context, job *demoJob) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		var found client.Stored
		_, err := d.bridge.Admin(ctx, "get", map[string]string{"id": job.id}, &found)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (d *demo) finishByID(ctx context.Context, job *demoJob, what string) {
	d.finish(ctx, job, what, "by id "+job.id, func(ctx context.Context) (int, error) {
		return d.bridge.Finish(ctx, job.id)
	})
}

// finish notes what came of it; check judges it in the end.
func (d *demo) finish(
	ctx context.Context, job *demoJob, what, how string, call func(context.Context) (int, error),
) {
	if d.options.dropAcks {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	n, err := call(ctx)
	switch {
	case err != nil:
		job.failures = append(job.failures, fmt.Sprintf("its finish failed: %v", err))
	case n != 1 && job.finished.IsZero():
		job.failures = append(job.failures, fmt.Sprintf("its finish said finished: %d, not 1", n))
	case job.finished.IsZero():
		job.finished = d.options.Now()
		d.printer.line(job.finished, what, job.name, how)
	}
}
