package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Delivery is one hand-out of a job, as a worker sees it.
type Delivery struct {
	ID      string
	Topic   string
	Attempt int
	DueAt   time.Time // when it was due the first time, whatever the attempt
	TTR     Seconds   // 0: the job is gone with this delivery
	Ack     string    // the subject that takes the verbs for this very delivery
	Headers nats.Header
	Body    []byte
	Raw     bool // Body is any bytes, as pushed in the header form; else JSON
}

// ParseDelivery reads a ready message.
func ParseDelivery(msg *nats.Msg) (Delivery, error) {
	d := Delivery{ID: msg.Header.Get(HeaderID), Topic: msg.Header.Get(HeaderTopic), Ack: msg.Header.Get(HeaderAck)}
	d.Body, d.Raw = body(msg)
	d.Headers = own(msg.Header)
	var err error
	if d.Attempt, err = strconv.Atoi(msg.Header.Get(HeaderAttempt)); err != nil {
		return d, fmt.Errorf("header %s: %w", HeaderAttempt, err)
	}
	if d.DueAt, err = time.Parse(time.RFC3339Nano, msg.Header.Get(HeaderDueAt)); err != nil {
		return d, fmt.Errorf("header %s: %w", HeaderDueAt, err)
	}
	if ttr := msg.Header.Get(HeaderTTR); ttr != "" {
		seconds, err := strconv.ParseFloat(ttr, 64)
		if err != nil {
			return d, fmt.Errorf("header %s: %w", HeaderTTR, err)
		}
		d.TTR = Seconds(seconds)
	}
	return d, nil
}

// own are the headers that the pusher gave.
func own(all nats.Header) nats.Header {
	headers := nats.Header{}
	for name, values := range all {
		if lower := strings.ToLower(name); !strings.HasPrefix(lower, "dq-") && !strings.HasPrefix(lower, "nats-") {
			headers[name] = values
		}
	}
	return headers
}

// body is the job's own: a field of the payload where it was pushed as JSON, else the payload, which is the
// second result.
func body(msg *nats.Msg) ([]byte, bool) {
	var payload struct {
		ID   string          `json:"id"`
		Body json.RawMessage `json:"body"`
	}
	err := json.Unmarshal(msg.Data, &payload)
	if err != nil || payload.ID != msg.Header.Get(HeaderID) || payload.Body == nil {
		return msg.Data, true
	}
	return payload.Body, false
}
