package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// durable is the consumer that all replicas share.
	durable = "dqbridge"
	// ackWait is how long the stream leaves a message to a replica that gives no sign of life: what a dead one held is
	// taken up by the others then.
	ackWait = 5 * time.Second
	// maxAckPending bounds the messages that all replicas together hold, those that wait for the end of a flight among
	// them; at it no new push is taken.
	maxAckPending = 8192
	// pullMessages and pullBytes bound what one replica asks for ahead of what it has taken.
	pullMessages = 1024
	pullBytes    = 16 << 20
	// pullExpiry is how long one question for messages lasts, and pullBeat how often it is answered that there are none.
	pullExpiry = 5 * time.Second
	pullBeat   = time.Second
	// streamLook is how often the state of the consumer is read.
	streamLook = 5 * time.Second
	// lateLooks is how many looks may fail before the replica is not ready.
	lateLooks = 3
)

// stream takes pushes from a JetStream stream: it keeps stream and consumer, pulls, and forgets what the stream has the
// acks of. What becomes of a message: arrivals.go.
type stream struct {
	name     string
	link     *Link
	queue    *delay.Queue
	subjects subjects
	metrics  *metrics
	log      zerolog.Logger
	now      func() time.Time
	*arrivals

	// consumer is what open found last; open and run use it, one after the other.
	consumer jetstream.Consumer
	// floor is what was acked without a gap at the last look; pull uses it. looked is when that was, seen by health.
	floor  uint64
	looked atomic.Int64
	// backlog and pending are the figures of the last look.
	backlog, pending prometheus.Gauge

	stopPulling, stopKeeping context.CancelFunc
	pulling, keeping         sync.WaitGroup
}

func newStream(b *Bridge) *stream {
	return &stream{
		name: b.options.PushStream, link: b.link, queue: b.queue, subjects: b.subjects, metrics: b.metrics, log: b.log,
		now: b.now, arrivals: newArrivals(b),
		backlog: b.metrics.gauge("push_stream_pending", "Pushes in the stream that were given to no replica yet."),
		pending: b.metrics.gauge("push_stream_ack_pending", "Pushes of the stream in the hands of replicas, or put off."),
	}
}

// open makes what is missing of stream and consumer, and checks what is there.
func (s *stream) open(ctx context.Context) error {
	js, err := jetstream.New(s.link.Conn)
	if err != nil {
		return fmt.Errorf("use jetstream: %w", err)
	}
	found, err := js.Stream(ctx, s.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		found, err = js.CreateStream(ctx, s.settings())
		if err == nil {
			s.log.Info().Str("stream", s.name).Msg("stream for pushes is made")
		}
	}
	if err != nil {
		return s.unusable(err)
	}
	if err = s.check(&found.CachedInfo().Config); err != nil {
		return fatal{err}
	}
	consumer, err := found.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: durable, Description: "pushes on their way to the bridges", AckPolicy: jetstream.AckExplicitPolicy,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: maxAckPending,
	})
	if err != nil {
		return s.unusable(err)
	}
	s.consumer = consumer
	return nil
}

// unusable tells what may pass from what somebody has to change.
func (s *stream) unusable(err error) error {
	wrapped := fmt.Errorf("%w: stream %s: %w", ErrPushStream, s.name, err)
	var refused jetstream.JetStreamError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return fatal{fmt.Errorf("%w: JetStream is not enabled for the bridge's account; enable it, or leave DQ_PUSH_STREAM empty", wrapped)}
	case errors.As(err, &refused) && refused.APIError() != nil && refused.APIError().Code < 503:
		return fatal{wrapped}
	}
	return wrapped
}

// start pulls until stop.
func (s *stream) start(ctx context.Context) {
	pulling, stopPulling := context.WithCancel(ctx)
	keeping, stopKeeping := context.WithCancel(ctx)
	s.stopPulling, s.stopKeeping = stopPulling, stopKeeping
	s.looked.Store(s.now().UnixNano())
	s.pulling.Go(func() { s.run(pulling) })
	s.keeping.Go(func() { s.keep(keeping) })
}

// stop takes no more messages, gives back those that nothing was done for yet, and waits for the others, until ctx is over.
func (s *stream) stop(ctx context.Context) {
	if s.stopPulling == nil {
		return
	}
	s.leave()
	s.stopPulling()
	s.pulling.Wait()
	s.wait(ctx)
	s.stopKeeping()
	s.keeping.Wait()
}

// ready gives an error where the stream has not answered for long.
func (s *stream) ready() error {
	if at := s.looked.Load(); at > 0 && s.now().Sub(time.Unix(0, at)) > lateLooks*streamLook {
		return errors.New("stream " + s.name + " gives no pushes")
	}
	return nil
}

// trouble counts and logs what failed; a connection that is away is told by health.
func (s *stream) trouble(duty string, err error) {
	if !s.link.IsConnected() {
		err = errors.Join(errAway, err)
	}
	s.metrics.trouble(duty, err)
}

// run pulls, and opens stream and consumer anew where they are gone.
func (s *stream) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.pull(ctx); err != nil && ctx.Err() == nil {
			s.trouble("pull pushes", err)
			holdBack(ctx)
		}
		for ctx.Err() == nil {
			err := s.open(ctx)
			if err == nil {
				break
			}
			s.trouble("open push stream", err)
			holdBack(ctx)
		}
	}
}

// pull takes messages until ctx is over or the consumer is gone.
func (s *stream) pull(ctx context.Context) error {
	bytes := max(pullBytes, 2*int(s.link.MaxPayload())) // one message must always fit
	pulling, err := s.consumer.Consume(s.take,
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, bytes), jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(pullBeat), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			s.trouble("pull pushes", err)
		}))
	if err != nil {
		return err
	}
	look := time.NewTicker(streamLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if err := s.look(ctx); errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
				pulling.Stop()
				<-pulling.Closed()
				return err
			} else if err != nil && ctx.Err() == nil {
				s.trouble("look at push stream", err)
			}
		case <-pulling.Closed():
			return errConsumerGone
		case <-ctx.Done():
			pulling.Drain() // what is here already is given back by take
			s.drained(pulling)
			return nil
		}
	}
}

var errConsumerGone = errors.New("the consumer is gone")

// drained waits until the last message was handed to take; a connection that is away hands over none.
func (s *stream) drained(pulling jetstream.ConsumeContext) {
	const within = time.Second
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-pulling.Closed():
	case <-timer.C:
	}
}

// look reads how far the consumer is, for the figures, and lets the store forget what will not come again. That is the
// ack floor of the look before: a server that has crashed, or a new leader, may not know the newest acks.
func (s *stream) look(ctx context.Context) error {
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return err
	}
	s.backlog.Set(float64(info.NumPending))
	s.pending.Set(float64(info.NumAckPending))
	s.looked.Store(s.now().UnixNano())
	before := s.floor
	s.floor = info.AckFloor.Stream
	if before == 0 {
		return nil
	}
	return s.queue.Forget(ctx, before)
}
