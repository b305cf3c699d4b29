package peers

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var jetStreamOptions = []Option{
	{"sync_interval", "1s", "synced each second, as the append-only file of Redis is; the default is 2 minutes"},
	{"storage", "file", "durable"},
	{"retention", "work queue", "what is acked is removed, as in a queue"},
	{"schedule", "one subject a job, @at, one target subject in the same stream", "what ADR-51 offers for a message that is due once"},
	{"push", "one connection, 64 publishes in flight; batches: two connections, 512 publishes in flight each", "many in flight is its fastest confirmed way"},
	{"workers", "1, 2 or 4 connections on one pull consumer, 5,000 messages asked for at once, acks published", "asked for well ahead, so that no worker waits for its pull; the best number counts"},
	{"max_ack_pending", "20000", "as the window of dqbridge"},
}

const (
	jsStream, jsTarget, jsSchedules  = "JOBS", "jobs.due", "jobs.at."
	jsBatch, jsConnections, jsWindow = 512, 2, 20_000
)

// JetStream is a nats-server with message schedules (ADR-51) on a stream.
type JetStream struct {
	binary string
	nats   *server
	nc     *nats.Conn
	stream jetstream.Stream
	// scheduled is how many jobs were given in so far: each needs a subject of its own.
	scheduled int
}

// NewJetStream measures a built nats-server.
func NewJetStream(binary string) *JetStream { return &JetStream{binary: binary} }

// Name is what it is called in tables.
func (j *JetStream) Name() string { return "JetStream" }

// Options of the server, the stream and the clients.
func (j *JetStream) Options() []Option { return jetStreamOptions }

// Variants of the workers.
func (j *JetStream) Variants() []int { return []int{1, 2, 4} }

// Start starts the server and makes stream and consumer.
func (j *JetStream) Start(ctx context.Context, dir string) error {
	var err error
	if j.nats, err = startNATS(ctx, j.binary, dir, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: 1s }\n", dir)); err != nil {
		return err
	}
	if j.nc, err = j.nats.connect(); err != nil {
		return err
	}
	js, err := jetstream.New(j.nc)
	if err != nil {
		return err
	}
	j.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: jsStream, Subjects: []string{jsTarget, jsSchedules + ">"}, Storage: jetstream.FileStorage,
		Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true,
	})
	if err != nil {
		return fmt.Errorf("make stream: %w", err)
	}
	_, err = j.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "workers", FilterSubject: jsTarget, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: jsWindow,
	})
	if err != nil {
		return fmt.Errorf("make consumer: %w", err)
	}
	return nil
}

// Stop ends the server.
func (j *JetStream) Stop() {
	if j.nc != nil {
		j.nc.Close()
	}
	j.nats.stop()
	j.nc, j.nats = nil, nil
}

// Processes is one.
func (j *JetStream) Processes() map[string]int { return map[string]int{"nats": j.nats.pid()} }

// Due is any moment.
func (j *JetStream) Due(now time.Time, delay time.Duration) time.Time { return now.Add(delay) }

// jsPusher publishes in turn on its connections.
type jsPusher struct {
	peer  *JetStream
	pipes []*pipe
	at    []string // the value of the header
	msg   nats.Msg
}

// NewPusher pushes on connections of its own, with the pipe that dqbridge is pushed with.
func (j *JetStream) NewPusher(_ context.Context, mode Mode) (Pusher, error) {
	connections, each := 1, inFlight
	if mode != Single {
		connections, each = jsConnections, jsBatch
	}
	p := &jsPusher{peer: j, at: make([]string, 1)}
	p.msg.Header = nats.Header{"Nats-Schedule": p.at, "Nats-Schedule-Target": {jsTarget}}
	for range connections {
		nc, err := j.nats.connect()
		if err != nil {
			p.Close()
			return nil, err
		}
		way, err := newPipe(nc, each, jsAnswer)
		if err != nil {
			nc.Close()
			p.Close()
			return nil, err
		}
		p.pipes = append(p.pipes, way)
	}
	return p, nil
}

func jsAnswer(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"seq":`)) || bytes.Contains(answer, []byte(`"error"`)) {
		return fmt.Errorf("publish: %.300s", answer)
	}
	return nil
}

func (p *jsPusher) Push(ctx context.Context, body []byte, due time.Time) error {
	p.peer.scheduled++
	p.msg.Subject = jsSchedules + strconv.Itoa(p.peer.scheduled)
	p.at[0] = "@at " + due.UTC().Format(time.RFC3339Nano)
	p.msg.Data = body
	return p.pipes[p.peer.scheduled%len(p.pipes)].send(ctx, &p.msg)
}

func (p *jsPusher) Flush(ctx context.Context) error {
	for _, way := range p.pipes {
		if err := way.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *jsPusher) Close() {
	for _, way := range p.pipes {
		way.nc.Close()
	}
}

// Work pulls on n connections.
func (j *JetStream) Work(ctx context.Context, n int, take func([]byte)) (func(), error) {
	const ask = 5000
	var conns []*nats.Conn
	stop := func() {
		for _, nc := range conns {
			nc.Close()
		}
	}
	for range n {
		nc, err := j.nats.connect()
		if err != nil {
			stop()
			return nil, err
		}
		conns = append(conns, nc)
		if err := jsWorker(ctx, nc, ask, take); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

func jsWorker(ctx context.Context, nc *nats.Conn, ask int, take func([]byte)) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, jsStream, "workers")
	if err != nil {
		return fmt.Errorf("find consumer: %w", err)
	}
	_, err = consumer.Consume(func(msg jetstream.Msg) {
		take(msg.Data())
		_ = msg.Ack() // one that is lost shows as a job that comes twice
	}, jetstream.PullMaxMessages(ask))
	return err
}

// Stored are the messages of the stream: a job is its schedule before it is due, and a message for the workers after.
func (j *JetStream) Stored(ctx context.Context) (int, error) {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.State.Msgs), nil
}

// Memory is that of the process: there is no better figure.
func (j *JetStream) Memory(context.Context) (int64, error) { return j.nats.rss() }
