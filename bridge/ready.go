package bridge

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// readyOverhead is more than a ready message has beside id, topic, body and the job's own headers.
const readyOverhead = 1024

// readySize is no less than what the delivery of a job takes of the server's max_payload, headers included.
func readySize(j *delay.Job, prefix string) int {
	// The id stands in Dq-Id, quoted in the payload (up to 6 bytes for one) and in the ack subject twice in base64.
	const perID, perTopic = 10, 8
	return len(j.Body) + len(j.Headers) + perID*len(j.ID) + perTopic*len(j.Topic) + 3*len(prefix) + readyOverhead
}

// readyMsg builds the message of a delivery; ack is its reply subject.
func readyMsg(d *delay.Delivery, subject, ack, msgID string) *nats.Msg {
	own := decodeHeaders(d.Headers)
	if own == nil {
		own = make(nats.Header, 8)
	}
	due := formatTime(d.DueAt)
	// One array for all values: a header's value is a slice of it.
	values := []string{d.ID, d.Topic, strconv.Itoa(d.Attempt), due, seconds(d.TTR), ack, msgID}
	for i, name := range [...]string{headerID, headerTopic, headerAttempt, headerDueAt, headerTTR, headerAck, headerMsgID} {
		own[name] = values[i : i+1 : i+1]
	}
	return &nats.Msg{Subject: subject, Reply: ack, Header: own, Data: readyPayload(d, due)}
}

// readyPayload is what a worker gets: the job as JSON, or the body alone where it was pushed so.
func readyPayload(d *delay.Delivery, due string) []byte {
	if d.Raw {
		return d.Body
	}
	p := make([]byte, 0, len(d.Body)+len(d.ID)+len(d.Topic)+192)
	p = append(p, `{"id":`...)
	p = appendString(p, d.ID)
	p = append(p, `,"topic":`...)
	p = appendString(p, d.Topic)
	p = append(p, `,"delay":`...)
	p = appendSeconds(p, d.Delay)
	p = append(p, `,"ttr":`...)
	p = appendSeconds(p, d.TTR)
	p = append(p, `,"body":`...)
	p = append(p, d.Body...)
	p = append(p, `,"attempt":`...)
	p = strconv.AppendInt(p, int64(d.Attempt), 10)
	p = append(p, `,"due_at":"`...)
	p = append(p, due...)
	p = append(p, `","pushed_at":"`...)
	p = appendTime(p, d.PushedAt)
	return append(p, `"}`...)
}

// appendSeconds writes whole milliseconds as a decimal number of seconds.
func appendSeconds(p []byte, d time.Duration) []byte {
	ms := d.Milliseconds()
	p = strconv.AppendInt(p, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		p = append(p, '.')
		digits := strconv.AppendInt(nil, 1000+rest, 10)[1:]
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		p = append(p, digits...)
	}
	return p
}

func seconds(d time.Duration) string { return string(appendSeconds(nil, d)) }
