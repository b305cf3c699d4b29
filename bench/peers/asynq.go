package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

var asynqOptions = []Option{
	{"push", "64 goroutines with one client, 64 connections", "its client makes one round trip a job and has no other way: batches there are none"},
	{"workers", "1 or 4 servers in one process", "a server dequeues on one goroutine; the best number counts"},
	{"Concurrency", "64", "handlers at once in a server: they do nothing, so it is its one goroutine that dequeues which is to be kept busy"},
	{"TaskCheckInterval", "5ms", "the default of 1s is how long an idle server sleeps: good for late jobs only"},
	{"DelayedTaskCheckInterval", "50ms", "the default of 5s makes jobs up to 5s late"},
	{"Retention", "0", "a finished task is removed"},
}

const (
	asynqConcurrency = 64
	asynqCheck       = 5 * time.Millisecond
	asynqForward     = 50 * time.Millisecond
)

// Asynq is its client and servers, in this process, on a Redis of its own.
type Asynq struct {
	redis *redisServer
}

// NewAsynq measures the module this program is built with.
func NewAsynq() *Asynq { return &Asynq{} }

// Name is what it is called in tables.
func (a *Asynq) Name() string { return "asynq" }

// Options of client, servers and Redis.
func (a *Asynq) Options() []Option {
	return append(append([]Option{}, asynqOptions...), redisOptions...)
}

// Variants of the servers.
func (a *Asynq) Variants() []int { return []int{1, 4} }

// Start starts Redis.
func (a *Asynq) Start(ctx context.Context, dir string) error {
	var err error
	a.redis, err = startRedis(ctx, dir)
	return err
}

// Stop ends Redis.
func (a *Asynq) Stop() {
	a.redis.stop()
	a.redis = nil
}

// Processes is one: all else runs here.
func (a *Asynq) Processes() map[string]int { return map[string]int{"redis": a.redis.pid()} }

// Due is any moment; asynq itself keeps whole seconds, rounded down.
func (a *Asynq) Due(now time.Time, delay time.Duration) time.Time { return now.Add(delay) }

type asynqJob struct {
	body []byte
	due  time.Time
}

// asynqPusher hands jobs to goroutines.
type asynqPusher struct {
	client *asynq.Client
	jobs   chan asynqJob
	ended  sync.WaitGroup
	// out are the jobs that are not confirmed yet.
	out    sync.WaitGroup
	failed chan error
}

// NewPusher starts 64 goroutines.
func (a *Asynq) NewPusher(ctx context.Context, mode Mode) (Pusher, error) {
	if mode != Single {
		return nil, nil //nolint:nilnil // as the interface says: no such way
	}
	p := &asynqPusher{
		client: asynq.NewClient(asynq.RedisClientOpt{Addr: a.redis.addr, PoolSize: inFlight}),
		jobs:   make(chan asynqJob), failed: make(chan error, 1),
	}
	for range inFlight {
		p.ended.Go(func() { p.enqueue(ctx) })
	}
	return p, nil
}

func (p *asynqPusher) enqueue(ctx context.Context) {
	for job := range p.jobs {
		if _, err := p.client.EnqueueContext(ctx, asynq.NewTask("job", job.body), asynq.ProcessAt(job.due)); err != nil {
			select {
			case p.failed <- err:
			default: // the first one is told
			}
		}
		p.out.Done()
	}
}

func (p *asynqPusher) Push(ctx context.Context, body []byte, due time.Time) error {
	p.out.Add(1)
	select {
	case p.jobs <- asynqJob{body: append([]byte(nil), body...), due: due}:
		return nil
	case err := <-p.failed:
		p.out.Done()
		return err
	case <-ctx.Done():
		p.out.Done()
		return ctx.Err()
	}
}

func (p *asynqPusher) Flush(context.Context) error {
	p.out.Wait()
	select {
	case err := <-p.failed:
		return err
	default:
		return nil
	}
}

func (p *asynqPusher) Close() {
	close(p.jobs)
	p.ended.Wait()
	_ = p.client.Close() // nothing is out on it
}

// Work starts n servers.
func (a *Asynq) Work(_ context.Context, n int, take func([]byte)) (func(), error) {
	var servers []*asynq.Server
	stop := func() {
		var all sync.WaitGroup
		for _, s := range servers {
			all.Go(s.Shutdown)
		}
		all.Wait()
	}
	for range n {
		s := asynq.NewServer(asynq.RedisClientOpt{Addr: a.redis.addr}, asynq.Config{
			Concurrency: asynqConcurrency, TaskCheckInterval: asynqCheck, DelayedTaskCheckInterval: asynqForward,
			LogLevel: asynq.FatalLevel,
		})
		err := s.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			take(task.Payload())
			return nil
		}))
		if err != nil {
			stop()
			return nil, fmt.Errorf("start asynq server: %w", err)
		}
		servers = append(servers, s)
	}
	return stop, nil
}

// Stored are the entries of its lists and sets.
func (a *Asynq) Stored(ctx context.Context) (int, error) {
	const key = "asynq:{default}:"
	all := a.redis.client.Pipeline()
	scheduled, retry := all.ZCard(ctx, key+"scheduled"), all.ZCard(ctx, key+"retry")
	pending, active := all.LLen(ctx, key+"pending"), all.LLen(ctx, key+"active")
	if _, err := all.Exec(ctx); err != nil {
		return 0, errors.Join(errors.New("count asynq's tasks"), err)
	}
	return int(scheduled.Val() + retry.Val() + pending.Val() + active.Val()), nil
}

// Memory is that of Redis.
func (a *Asynq) Memory(ctx context.Context) (int64, error) { return a.redis.usedMemory(ctx) }
