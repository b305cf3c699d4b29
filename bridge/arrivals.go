package bridge

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// heldBytes bounds the payloads that are held, about: beyond it no more is taken out of the client's buffer.
	heldBytes = 64 << 20
	// keepEvery is how often messages in hand are kept from being sent to others, from an age of keepAfter on.
	keepEvery = ackWait / 5
	keepAfter = ackWait / 4
	// firstRetry and lastRetry bound the pause before a push that Redis did not take is tried again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// firstNak and lastNak bound the pause before a push that met a flight comes again.
	firstNak = 250 * time.Millisecond
	lastNak  = 4 * time.Second
)

// arrival is a message of the push stream in this replica's hands. It has no reply subject as far as answers go: whoever
// published it has the stream's confirmation.
type arrival struct {
	jetstream.Msg
	seq uint64
	// stored is when the stream took it: with seq it tells the message from all others, also of a stream made anew.
	stored int64
	times  uint64 // how often it was delivered
	bytes  int

	// mu guards what follows: handlers and timers use it.
	mu sync.Mutex
	// kept is when the stream last heard that this replica has it.
	kept time.Time
	// left is how many of its jobs have no outcome yet, of all.
	left, all int
	refused   []refusal
	// flying: a job that it wants to replace is in flight. givenUp: Redis did not take a job, and it is not tried here again.
	flying, givenUp bool
}

// Reply implements question.
func (*arrival) Reply() string { return "" }

// refusal is a job that cannot be stored, with its place in an array, or -1.
type refusal struct {
	index int
	raw   []byte
	e     envelope
}

// arrivals stores what the messages of the push stream say, and tells the stream what became of each: 200 acks it; 400,
// 413 and 409 end it and are announced; 409 for a job in flight lets it come again later; at 503 it is tried again here.
// A message is announced and ended as a whole, once all its jobs have an outcome: it may come again as a whole.
type arrivals struct {
	stream   string
	intake   *intake
	answers  *answers
	subjects subjects
	metrics  *metrics
	now      func() time.Time

	// mu guards what follows. landed has room for one note that a message left the hands.
	mu      sync.Mutex
	held    map[*arrival]struct{}
	bytes   int
	leaving bool
	// waiting holds a timer for each job that is tried again later.
	waiting map[*time.Timer]struct{}
	landed  chan struct{}
}

func newArrivals(b *Bridge) *arrivals {
	return &arrivals{
		stream: b.options.PushStream, intake: b.intake, answers: b.answers, subjects: b.subjects, metrics: b.metrics, now: b.now,
		held: make(map[*arrival]struct{}), waiting: make(map[*time.Timer]struct{}), landed: make(chan struct{}, 1),
	}
}

// take is called for one message after the other. It waits only where too many bytes are in hand.
func (in *arrivals) take(msg jetstream.Msg) {
	a := &arrival{Msg: msg, bytes: len(msg.Data()), kept: in.now()}
	meta, err := msg.Metadata()
	if err != nil {
		in.metrics.trouble("take push", err)
		return
	}
	a.seq, a.stored, a.times = meta.Sequence.Stream, meta.Timestamp.UnixNano(), meta.NumDelivered
	if !in.hold(a) {
		in.tell("give back push", msg.Nak())
		return
	}
	topic, f := in.topicOf(msg.Subject())
	var jobs []pushed
	batch := false
	if f == nil {
		jobs, batch, f = decodePush(topic, msg.Headers(), msg.Data(), in.intake.limits)
	}
	if f != nil {
		a.left, a.all = 1, 1
		in.outcome(a, refusal{-1, nil, f.envelope()})
		return
	}
	a.left, a.all = len(jobs), len(jobs)
	pushes := make([]delay.Push, 0, len(jobs))
	for i := range jobs {
		index := i
		if !batch {
			index = -1
		}
		if f := in.name(a, index, &jobs[i]); f != nil {
			in.outcome(a, refusal{index, jobs[i].Raw, f.envelope()})
			continue
		}
		pushes = append(pushes, in.push(a, index, &jobs[i], firstRetry))
	}
	in.intake.queue.Submit(true, pushes...)
}

// topicOf gives the topic of a message's subject. One that is no push subject came through a source of the stream.
func (in *arrivals) topicOf(subject string) (string, *fault) {
	if subject != in.subjects.push() && !strings.HasPrefix(subject, in.subjects.push()+".") {
		return "", badInput("subject", subject, in.subjects.push()+" or "+in.subjects.pushes())
	}
	return in.subjects.pushTopic(subject), nil
}

// name gives one job of a message its origin, and an id, and checks it.
func (in *arrivals) name(a *arrival, index int, p *pushed) *fault {
	place := strconv.FormatUint(a.seq, 10)
	mark := place
	if index >= 0 {
		place += "-" + strconv.Itoa(index)
		mark += "." + strconv.Itoa(index)
	}
	p.Job.Origin = delay.Origin{Seq: a.seq, Mark: mark + "@" + strconv.FormatInt(a.stored, 36)}
	if p.Job.ID == "" {
		p.Job.ID, p.Job.Origin.Generated = in.stream+"-"+place, true
		p.Job.Replace = false // there is nothing of its own to replace
	}
	return in.intake.check(p)
}

// submit gives a job to the queue; pause is the one before it is tried again.
func (in *arrivals) submit(a *arrival, index int, p *pushed, pause time.Duration) {
	in.intake.queue.Submit(true, in.push(a, index, p, pause))
}

// push is what stores a job; pause is the one before it is tried again.
func (in *arrivals) push(a *arrival, index int, p *pushed, pause time.Duration) delay.Push {
	job := p.Job // each try has a trace of its own
	return in.intake.push(&job, func(r delay.Pushed, e envelope) {
		switch {
		case e.Code == http.StatusServiceUnavailable:
			in.retry(a, func() { in.submit(a, index, p, min(2*pause, lastRetry)) }, pause)
		case errors.Is(r.Err, delay.ErrState):
			a.mu.Lock()
			a.flying = true
			a.mu.Unlock()
			in.outcome(a, refusal{})
		case p.Job.Origin.Generated && r.Duplicate && r.State != delay.Unknown:
			// The id is another message's, of an earlier stream of this name.
			p.Job.ID, p.Job.Origin.Generated = p.Job.ID+"-"+strconv.FormatInt(a.stored, 36), false
			in.submit(a, index, p, pause)
		default:
			in.outcome(a, refusal{index, p.Raw, e})
		}
	})
}

// retry tries again after a pause, while the message is this replica's to try.
func (in *arrivals) retry(a *arrival, try func(), pause time.Duration) {
	in.later(pause/2+rand.N(pause/2), func() {
		a.mu.Lock()
		// A message that the stream did not hear of for long is in other hands by now.
		a.givenUp = a.givenUp || in.away() || in.now().Sub(a.kept) > ackWait
		givenUp := a.givenUp
		a.mu.Unlock()
		if givenUp {
			in.outcome(a, refusal{})
			return
		}
		try()
	})
}

// later calls f after a pause, or as soon as the replica leaves.
func (in *arrivals) later(pause time.Duration, f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.leaving {
		pause = 0
	}
	var timer *time.Timer
	timer = time.AfterFunc(pause, func() {
		in.mu.Lock()
		delete(in.waiting, timer)
		in.mu.Unlock()
		f()
	})
	in.waiting[timer] = struct{}{}
}

// outcome notes what became of one job, and with the last one ends the message. A refusal that is none has no code.
func (in *arrivals) outcome(a *arrival, r refusal) {
	a.mu.Lock()
	if r.e.Code >= http.StatusBadRequest {
		a.refused = append(a.refused, r)
	}
	a.left--
	over := a.left == 0
	a.mu.Unlock()
	if over {
		in.end(a)
		in.drop(a)
	}
}

// end tells the stream what became of a message. No job of it has an outcome any more.
func (in *arrivals) end(a *arrival) {
	switch {
	case a.givenUp:
		in.tell("give back push", a.Nak())
		return
	case a.flying:
		in.tell("put push off", a.NakWithDelay(min(firstNak<<min(a.times-1, 8), lastNak)))
		return
	}
	for _, r := range a.refused {
		in.answers.reply(a, r.e, r.index, r.raw)
	}
	if len(a.refused) == a.all {
		in.tell("end push", a.TermWithReason(excerpt(a.refused[0].e.Message)))
		return
	}
	in.tell("ack push", a.Ack())
}

// tell counts what the stream could not be told: the message comes again, and is known then.
func (in *arrivals) tell(duty string, err error) {
	if err != nil {
		in.metrics.trouble(duty, err)
	}
}

// hold takes a message into the hands, or says that the replica leaves.
func (in *arrivals) hold(a *arrival) bool {
	for {
		in.mu.Lock()
		if in.leaving {
			in.mu.Unlock()
			return false
		}
		if in.bytes < heldBytes {
			in.held[a] = struct{}{}
			in.bytes += a.bytes
			in.mu.Unlock()
			return true
		}
		in.mu.Unlock()
		<-in.landed
	}
}

// drop lets a message go.
func (in *arrivals) drop(a *arrival) {
	in.mu.Lock()
	delete(in.held, a)
	in.bytes -= a.bytes
	in.mu.Unlock()
	in.note()
}

func (in *arrivals) note() {
	select {
	case in.landed <- struct{}{}:
	default:
	}
}

// leave makes take give back what comes, and tries nothing again.
func (in *arrivals) leave() {
	in.mu.Lock()
	in.leaving = true
	for timer := range in.waiting {
		if timer.Stop() { // one that has fired already does not fire twice
			timer.Reset(0)
		}
	}
	in.mu.Unlock()
	in.note()
}

// away reports whether the replica leaves.
func (in *arrivals) away() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.leaving
}

// wait waits until no message is in hand, or ctx is over.
func (in *arrivals) wait(ctx context.Context) {
	for {
		in.mu.Lock()
		left := len(in.held)
		in.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-in.landed:
		case <-ctx.Done():
			return
		}
	}
}

// keep tells the stream of messages that are in hand for long, so that it does not give them to others.
func (in *arrivals) keep(ctx context.Context) { each(ctx, keepEvery, in.keepAll) }

func (in *arrivals) keepAll() {
	in.mu.Lock()
	old := make([]*arrival, 0, len(in.held))
	for a := range in.held {
		old = append(old, a)
	}
	in.mu.Unlock()
	now := in.now()
	for _, a := range old {
		a.mu.Lock()
		if now.Sub(a.kept) > keepAfter && a.left > 0 {
			err := a.InProgress()
			if err == nil {
				a.kept = now
			}
		}
		a.mu.Unlock()
	}
}
