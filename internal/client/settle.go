package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
)

// MaxBatch is how many jobs one request may name.
const MaxBatch = 1000

// Settling says what to do with a job: its id, and what the verb takes beside it.
type Settling struct {
	ID     string `json:"id"`
	Delay  Value  `json:"delay,omitempty"`  // of release; empty: by the job's backoff
	Reason string `json:"reason,omitempty"` // of bury
}

// Settle asks for finish, touch, release or bury by id. The answers are one for each item, in their order, and may say
// no; an error means that there are none. The envelope is the whole reply.
func (c Client) Settle(ctx context.Context, verb string, items []Settling) ([]Envelope, Envelope, error) {
	var ask any = items
	if len(items) == 1 {
		ask = items[0]
	}
	payload, err := json.Marshal(ask)
	if err != nil {
		return nil, Envelope{}, err
	}
	var data json.RawMessage
	reply, err := c.request(ctx, &nats.Msg{Subject: c.prefix + "." + verb, Data: payload}, &data)
	if len(items) == 1 {
		var refused *Error
		if err == nil || errors.As(err, &refused) {
			return []Envelope{reply}, reply, nil
		}
	}
	if err != nil {
		return nil, reply, err
	}
	var answers []Envelope
	if err := json.Unmarshal(data, &answers); err != nil {
		return nil, reply, fmt.Errorf("read the answers: %w", err)
	}
	if len(answers) != len(items) {
		return nil, reply, fmt.Errorf("%d answers to %d jobs", len(answers), len(items))
	}
	return answers, reply, nil
}

// Into decodes the data of a good answer; of another one it makes the error.
func (e Envelope) Into(data any) error {
	if e.Code != http.StatusOK {
		return &Error{Code: e.Code, Message: e.Message}
	}
	return decode(e.Data, data)
}
