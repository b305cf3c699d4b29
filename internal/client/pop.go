package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// ErrNoSubject means that a topic has what no NATS subject can have.
var ErrNoSubject = errors.New("cannot be part of a NATS subject")

// Pop takes the next ready job of a topic, and waits for one up to wait; empty: not at all. Where there is none the error is an *Error
// with code 404, and the envelope is that answer. ctx must last for at least wait and two seconds, or the job that
// comes last is lost until its TTR is over.
func (c Client) Pop(ctx context.Context, topic string, wait Value) (*nats.Msg, Envelope, error) {
	if !isSubject(topic) {
		return nil, Envelope{}, fmt.Errorf("topic %q %w", topic, ErrNoSubject)
	}
	msg := &nats.Msg{Subject: c.prefix + ".pop." + topic}
	if wait != "" {
		var err error
		if msg.Data, err = json.Marshal(map[string]Value{"wait": wait}); err != nil {
			return nil, Envelope{}, err
		}
	}
	reply, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return nil, Envelope{}, fmt.Errorf("%s: %w", msg.Subject, refine(err))
	}
	if reply.Header.Get(HeaderID) != "" {
		return reply, Envelope{}, nil
	}
	envelope := Envelope{Raw: reply.Data}
	if err := json.Unmarshal(reply.Data, &envelope); err != nil {
		return nil, envelope, fmt.Errorf("%s: the reply is not from a bridge: %w", msg.Subject, err)
	}
	return nil, envelope, &Error{Code: envelope.Code, Message: envelope.Message}
}
