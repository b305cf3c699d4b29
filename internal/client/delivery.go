package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Delivery is one hand-out of a job, as a worker sees it.
type Delivery struct {
	ID      string
	Topic   string
	Attempt int
	DueAt   time.Time // when it was due the first time, whatever the attempt
	Body    []byte
}

// ParseDelivery reads a ready message.
func ParseDelivery(msg *nats.Msg) (Delivery, error) {
	d := Delivery{ID: msg.Header.Get(HeaderID), Topic: msg.Header.Get(HeaderTopic), Body: body(msg)}
	var err error
	if d.Attempt, err = strconv.Atoi(msg.Header.Get(HeaderAttempt)); err != nil {
		return d, fmt.Errorf("header %s: %w", HeaderAttempt, err)
	}
	if d.DueAt, err = time.Parse(time.RFC3339Nano, msg.Header.Get(HeaderDueAt)); err != nil {
		return d, fmt.Errorf("header %s: %w", HeaderDueAt, err)
	}
	return d, nil
}

// body is the job's own: a field of the payload where it was pushed as JSON, else the payload.
func body(msg *nats.Msg) []byte {
	var payload struct {
		ID   string          `json:"id"`
		Body json.RawMessage `json:"body"`
	}
	err := json.Unmarshal(msg.Data, &payload)
	if err != nil || payload.ID != msg.Header.Get(HeaderID) || payload.Body == nil {
		return msg.Data
	}
	return payload.Body
}
