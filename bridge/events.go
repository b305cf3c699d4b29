package bridge

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// eventsPerSecond bounds the advisories of one topic about deliveries and finishes, each kind for itself.
const eventsPerSecond = 100

// events publishes advisories. They are for people and dashboards: one that cannot be sent is dropped.
type events struct {
	link     *Link
	subjects subjects
	now      func() time.Time

	// mu guards the samples of the present second.
	mu     sync.Mutex
	second int64
	sent   map[advisory]int
}

// advisory is a kind of them, of one topic.
type advisory struct{ what, topic string }

// sample reports whether one more advisory of a kind goes out in this second.
func (e *events) sample(a advisory) bool {
	second := e.now().Unix()
	e.mu.Lock()
	defer e.mu.Unlock()
	if second != e.second {
		e.second = second
		e.sent = make(map[advisory]int)
	}
	n := e.sent[a]
	if n < eventsPerSecond {
		e.sent[a] = n + 1
	}
	return n < eventsPerSecond
}

func (e *events) delivered(f *flight, at time.Time) {
	if !e.sample(advisory{"delivered", f.topic.name}) {
		return
	}
	data := appendString([]byte(`{"id":`), f.id)
	data = appendString(append(data, `,"topic":`...), f.topic.name)
	data = strconv.AppendInt(append(data, `,"attempt":`...), int64(f.attempt), 10)
	data = appendTime(append(data, `,"due_at":"`...), f.due)
	data = appendTime(append(data, `","delivered_at":"`...), at)
	data = append(data, `","lateness":`...)
	data = strconv.AppendFloat(data, f.late.Seconds(), 'f', 4, 64)
	_ = e.link.Publish(e.subjects.event("delivered."+f.topic.name), append(data, '}')) // an advisory may be lost
}

func (e *events) finished(id, topic string) {
	if topic == "" || !e.sample(advisory{"finished", topic}) {
		return
	}
	data := appendString([]byte(`{"id":`), id)
	data = appendString(append(data, `,"topic":`...), topic)
	_ = e.link.Publish(e.subjects.event("finished."+topic), append(data, '}')) // an advisory may be lost
}

// died announces a dead job: the job as a worker would get it, with the reason.
func (e *events) died(job *delay.DeadJob) {
	msg := nats.NewMsg(e.subjects.event("dead." + job.Topic))
	for name, value := range map[string]string{
		headerID: job.ID, headerTopic: job.Topic, headerReason: job.Reason, headerAttempt: strconv.Itoa(job.Attempt),
	} {
		msg.Header[name] = []string{value}
	}
	msg.Data = readyPayload(&job.Delivery, formatTime(job.DueAt))
	truncate(msg, e.link.MaxPayload())
	_ = e.link.PublishMsg(msg) // an advisory may be lost
}
