package testenv

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// FakeBridge keeps the part of the contract that clients meet, in memory, for tests of clients: push, delivery when
// due, redelivery, finish. It can break its promises, so that a client which checks them can be tested.
type FakeBridge struct {
	nc     *nats.Conn
	prefix string
	faults Faults

	mu   sync.Mutex // guards all below
	jobs map[string]*fakeJob
	over bool
}

// Faults are promises a FakeBridge breaks. The zero value breaks none.
type Faults struct {
	Early        time.Duration // so much before they are due jobs come
	Twice        bool          // every job comes twice in a row
	NoRedelivery bool          // what was not finished never comes again
	NoFinish     bool          // finishes are confirmed and not done
	Answer       string        // the answer to every push, which stores nothing then
}

type fakeJob struct {
	ID      string          `json:"id"`
	Topic   string          `json:"topic"`
	Delay   any             `json:"delay"`
	At      string          `json:"at"`
	TTR     any             `json:"ttr"`
	Body    json.RawMessage `json:"body"`
	raw     bool
	headers nats.Header
	due     time.Time
	attempt int
	timer   *time.Timer
}

// NewFakeBridge answers under prefix until the test ends.
func NewFakeBridge(tb testing.TB, nc *nats.Conn, prefix string, faults Faults) *FakeBridge {
	tb.Helper()
	b := &FakeBridge{nc: nc, prefix: prefix, faults: faults, jobs: map[string]*fakeJob{}}
	for subject, handle := range map[string]nats.MsgHandler{
		prefix + ".push": b.push, prefix + ".push.>": b.push,
		prefix + ".finish": b.finishByID, prefix + ".ack.*.*": b.finishByReply,
		"$SRV.PING.dqbridge": func(msg *nats.Msg) { b.answer(msg, "{}") },
	} {
		if _, err := nc.Subscribe(subject, handle); err != nil {
			tb.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.stop)
	return b
}

// Jobs counts the jobs that are not finished.
func (b *FakeBridge) Jobs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.jobs)
}

func (b *FakeBridge) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for _, job := range b.jobs {
		job.timer.Stop()
	}
}

// answer fails silently when the test is over and the connection closed.
func (b *FakeBridge) answer(msg *nats.Msg, reply string) { _ = msg.Respond([]byte(reply)) }

func (b *FakeBridge) push(msg *nats.Msg) {
	if b.faults.Answer != "" {
		b.answer(msg, b.faults.Answer)
		return
	}
	job, err := parseFakeJob(msg)
	if err != nil {
		b.answer(msg, fmt.Sprintf(`{"code":400,"message":%q,"data":null}`, err.Error()))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	stored := b.jobs[job.ID]
	if stored == nil {
		stored = job
		b.jobs[job.ID] = job
		job.timer = time.AfterFunc(job.due.Sub(now())-b.faults.Early, func() { b.deliver(job) })
	}
	b.answer(msg, fmt.Sprintf(`{"code":200,"message":"","data":{"id":%q,"due_at":%q,"duplicate":%t}}`,
		stored.ID, wireTime(stored.due), stored != job))
}

func parseFakeJob(msg *nats.Msg) (*fakeJob, error) {
	job := &fakeJob{headers: nats.Header{}}
	if topic := msg.Header.Get("Dq-Topic"); topic != "" {
		job.raw, job.Topic, job.ID, job.Body = true, topic, msg.Header.Get("Dq-Id"), msg.Data
		job.Delay, job.At, job.TTR = msg.Header.Get("Dq-Delay"), msg.Header.Get("Dq-At"), msg.Header.Get("Dq-Ttr")
	} else if err := json.Unmarshal(msg.Data, job); err != nil {
		return nil, err
	}
	for name, values := range msg.Header {
		if !strings.HasPrefix(name, "Dq-") {
			job.headers[name] = values
		}
	}
	if job.ID == "" {
		job.ID = "generated-" + strconv.FormatInt(now().UnixNano(), 36)
	}
	job.due = roundUp(now().Add(fakeDuration(job.Delay)))
	if job.At != "" {
		at, err := time.Parse(time.RFC3339Nano, job.At)
		if err != nil {
			return nil, err
		}
		job.due = roundUp(at)
	}
	return job, nil
}

func (b *FakeBridge) deliver(job *fakeJob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.jobs[job.ID] != job {
		return
	}
	ttr := fakeDuration(job.TTR)
	if ttr == 0 {
		ttr = time.Minute
	}
	copies := 1
	if b.faults.Twice {
		copies = 2
	}
	for range copies {
		job.attempt++
		_ = b.nc.PublishMsg(b.message(job)) // fails only when the test is over
	}
	if !b.faults.NoRedelivery {
		job.timer.Reset(ttr)
	}
}

func (b *FakeBridge) message(job *fakeJob) *nats.Msg {
	msg := nats.NewMsg(b.prefix + ".ready." + job.Topic)
	msg.Reply = fmt.Sprintf("%s.ack.%s.%d", b.prefix, job.ID, job.attempt)
	for name, values := range job.headers {
		msg.Header[name] = values
	}
	for name, value := range map[string]string{
		"Dq-Id": job.ID, "Dq-Topic": job.Topic, "Dq-Attempt": strconv.Itoa(job.attempt),
		"Dq-Due-At": wireTime(job.due), "Dq-Ack": msg.Reply,
	} {
		msg.Header.Set(name, value)
	}
	msg.Data = job.Body
	if !job.raw {
		body := job.Body
		if body == nil {
			body = json.RawMessage(`""`)
		}
		msg.Data = fmt.Appendf(nil, `{"id":%q,"topic":%q,"body":%s,"attempt":%d}`, job.ID, job.Topic, body, job.attempt)
	}
	return msg
}

func (b *FakeBridge) finishByReply(msg *nats.Msg) {
	b.finish(msg, strings.Split(strings.TrimPrefix(msg.Subject, b.prefix+".ack."), ".")[0])
}

func (b *FakeBridge) finishByID(msg *nats.Msg) {
	id := string(msg.Data)
	if unquoted, err := strconv.Unquote(id); err == nil {
		id = unquoted
	}
	b.finish(msg, id)
}

func (b *FakeBridge) finish(msg *nats.Msg, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	finished := 0
	if job := b.jobs[id]; job != nil {
		finished = 1
		if !b.faults.NoFinish {
			job.timer.Stop()
			delete(b.jobs, id)
		}
	}
	b.answer(msg, fmt.Sprintf(`{"code":200,"message":"","data":{"finished":%d}}`, finished))
}

func fakeDuration(value any) time.Duration {
	switch v := value.(type) {
	case float64:
		return time.Duration(v * float64(time.Second))
	case string:
		if seconds, err := strconv.ParseFloat(v, 64); err == nil {
			return fakeDuration(seconds)
		}
		d, _ := time.ParseDuration(v) // what is no duration is none
		return d
	default:
		return 0
	}
}

// roundUp is to the milliseconds of the wire, never to an earlier moment.
func roundUp(t time.Time) time.Time {
	return t.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
