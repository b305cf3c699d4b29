package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

var dqbridgeOptions = []Option{
	{"DQ_MAX_INFLIGHT", "20000", "the window of one topic: the default of 1,000 is for workers that take their time, these do nothing"},
	{"DQ_LOG_LEVEL", "warn", "nothing to log"},
}

const (
	dqTopic = "bench"
	// dqBatch is the jobs in one array; dqBatches is how many arrays wait for their answers, dqFlow in steady work.
	dqBatch, dqBatches, dqFlow = 100, 4, 10
)

// DQBridge is one or more bridges on a NATS server without JetStream and a Redis of its own.
type DQBridge struct {
	name               string
	binary, natsBinary string
	env                []string
	number             int

	redis   *redisServer
	nats    *server
	bridges []*server
	nc      *nats.Conn
}

// NewDQBridge measures so many of a built dqbridge. env is added to their environment, and HTTP, if it is to be on, needs an
// address there.
func NewDQBridge(name, binary, natsBinary string, env []string, number int) *DQBridge {
	return &DQBridge{name: name, binary: binary, natsBinary: natsBinary, env: env, number: number}
}

// Name is what it is called in tables.
func (d *DQBridge) Name() string { return d.name }

// Options of the bridge and its Redis.
func (d *DQBridge) Options() []Option {
	return append(append([]Option{
		{"push", "one connection, 64 requests in flight; batches: arrays of 100, 4 in flight; steady: 10 in flight", "what the contract offers; 10 arrays are 1,000 jobs, JetStream has 1,024 in flight"},
		{"workers", "1, 2 or 4 connections of one queue group, +ACK published", "the best one counts"},
	}, dqbridgeOptions...), redisOptions...)
}

// Variants of the workers.
func (d *DQBridge) Variants() []int { return []int{1, 2, 4} }

// Start starts Redis, NATS and the bridge.
func (d *DQBridge) Start(ctx context.Context, dir string) error {
	var err error
	if d.redis, err = startRedis(ctx, dir); err != nil {
		return err
	}
	if d.nats, err = startNATS(ctx, d.natsBinary, dir, ""); err != nil {
		return err
	}
	for i := range d.number {
		var bridge *server
		if bridge, err = d.startBridge(ctx, filepath.Join(dir, "bridge-"+strconv.Itoa(i))); err != nil {
			return err
		}
		d.bridges = append(d.bridges, bridge)
	}
	if d.nc, err = d.nats.connect(); err != nil {
		return err
	}
	return d.answers(ctx)
}

func (d *DQBridge) startBridge(ctx context.Context, dir string) (*server, error) {
	cmd := exec.Command(d.binary)
	cmd.Env = append(os.Environ(), "DQ_NATS_URL=nats://"+d.nats.addr, "DQ_REDIS_URL=redis://"+d.redis.addr+"/0", "DQ_HTTP_ADDR=")
	cmd.Env = append(append(cmd.Env, values(dqbridgeOptions)...), d.env...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return startServer(ctx, dir, d.nats.addr, cmd) // it listens on nothing itself: answers waits for it
}

// answers waits until all bridges serve.
func (d *DQBridge) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if d.serving(ctx) == d.number {
			return nil
		}
		select {
		case <-again.C:
		case <-d.bridges[0].done:
			return fmt.Errorf("%s ended at start: %s", d.name, d.bridges[0].tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", d.name, ctx.Err(), d.bridges[0].tail())
		}
	}
}

// serving is how many bridges answer: each is an instance of a NATS service.
func (d *DQBridge) serving(ctx context.Context) int {
	inbox := nats.NewInbox()
	sub, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		return 0
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only where the connection is gone
	if err := d.nc.PublishRequest("$SRV.PING.dqbridge", inbox, nil); err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	n := 0
	for n < d.number {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil || len(msg.Data) == 0 {
			return n
		}
		n++
	}
	return n
}

// Stop ends all.
func (d *DQBridge) Stop() {
	if d.nc != nil {
		d.nc.Close()
	}
	for _, bridge := range d.bridges {
		bridge.stop()
	}
	d.nats.stop()
	d.redis.stop()
	d.nc, d.bridges, d.nats, d.redis = nil, nil, nil, nil
}

// Processes are three with one bridge.
func (d *DQBridge) Processes() map[string]int {
	all := map[string]int{"nats": d.nats.pid(), "redis": d.redis.pid()}
	for i, bridge := range d.bridges {
		role := "bridge"
		if i > 0 {
			role += "-" + strconv.Itoa(i+1)
		}
		all[role] = bridge.pid()
	}
	return all
}

// Due is in whole milliseconds.
func (d *DQBridge) Due(now time.Time, delay time.Duration) time.Time {
	return now.Add(delay + time.Millisecond).Truncate(time.Millisecond)
}

// dqPusher writes jobs as JSON, one or an array a request.
type dqPusher struct {
	*pipe
	most int // jobs in a request
	held int
	msg  nats.Msg
}

// NewPusher pushes on a connection of its own.
func (d *DQBridge) NewPusher(_ context.Context, mode Mode) (Pusher, error) {
	nc, err := d.nats.connect()
	if err != nil {
		return nil, err
	}
	most, requests := 1, inFlight
	switch mode {
	case Single:
	case Batch:
		most, requests = dqBatch, dqBatches
	case Flow:
		most, requests = dqBatch, dqFlow
	}
	p, err := newPipe(nc, requests, dqAnswer)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &dqPusher{pipe: p, most: most, msg: nats.Msg{Subject: "dq.push"}}, nil
}

func dqAnswer(answer []byte) error {
	if !bytes.HasPrefix(answer, []byte(`{"code":200,`)) {
		return fmt.Errorf("push: %.300s", answer)
	}
	return nil
}

func (p *dqPusher) Push(ctx context.Context, body []byte, due time.Time) error {
	data := p.msg.Data
	if p.most > 1 {
		data = append(data, "[,"[min(p.held, 1)])
	}
	data = due.UTC().AppendFormat(append(data, `{"topic":"`+dqTopic+`","at":"`...), "2006-01-02T15:04:05.000Z")
	data = append(data, `","body":"`...)
	data = append(data, body[:len(body)-2]...) // the quotes are a part of the body
	data = append(data, `"}`...)
	p.msg.Data = data
	if p.held++; p.held < p.most {
		return nil
	}
	return p.request(ctx)
}

func (p *dqPusher) request(ctx context.Context) error {
	if p.most > 1 {
		p.msg.Data = append(p.msg.Data, ']')
	}
	err := p.send(ctx, &p.msg)
	p.held, p.msg.Data = 0, p.msg.Data[:0]
	return err
}

func (p *dqPusher) Flush(ctx context.Context) error {
	if p.held > 0 {
		if err := p.request(ctx); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

func (p *dqPusher) Close() { p.nc.Close() }

// Work subscribes n connections.
func (d *DQBridge) Work(_ context.Context, n int, take func([]byte)) (func(), error) {
	var conns []*nats.Conn
	stop := func() {
		for _, nc := range conns {
			nc.Close()
		}
	}
	ack, field := []byte("+ACK"), []byte(`"body":"`)
	for range n {
		nc, err := d.nats.connect()
		if err != nil {
			stop()
			return nil, err
		}
		conns = append(conns, nc)
		sub, err := nc.QueueSubscribe("dq.ready."+dqTopic, "workers", func(msg *nats.Msg) {
			if _, body, ok := bytes.Cut(msg.Data, field); ok {
				take(body)
			}
			_ = nc.Publish(msg.Reply, ack) // one that is lost shows as a job that comes twice
		})
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// Stored asks the bridge.
func (d *DQBridge) Stored(ctx context.Context) (int, error) {
	msg, err := d.nc.RequestWithContext(ctx, "dq.admin.stats", nil)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Code    int
		Message string
		Data    struct{ Delayed, Ready, Inflight, Dead int }
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil || answer.Code != 200 {
		return 0, fmt.Errorf("stats: %.200s: %w", msg.Data, err)
	}
	return answer.Data.Delayed + answer.Data.Ready + answer.Data.Inflight + answer.Data.Dead, nil
}

// Memory is that of Redis.
func (d *DQBridge) Memory(ctx context.Context) (int64, error) { return d.redis.usedMemory(ctx) }
