// Package client speaks the bridge's contract from outside, over NATS alone, as a program of any user would. The
// command line and the demonstration are made of it.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
)

// Words of the contract.
const (
	HeaderID      = "Dq-Id"
	HeaderTopic   = "Dq-Topic"
	HeaderAttempt = "Dq-Attempt"
	HeaderDueAt   = "Dq-Due-At"
	HeaderTTR     = "Dq-Ttr"
	HeaderAck     = "Dq-Ack"

	ackFinish   = "+ACK"
	serviceName = "dqbridge"
)

// ErrNoBridge means that nobody answers under the prefix.
var ErrNoBridge = errors.New("no bridge answers")

// Client asks the bridges under one prefix. The connection is its caller's.
type Client struct {
	nc     *nats.Conn
	prefix string
}

// New gives a client of the installation with this prefix (DQ_PREFIX).
func New(nc *nats.Conn, prefix string) Client { return Client{nc: nc, prefix: prefix} }

// ReadySubject is where the jobs of a topic are delivered; the topic may hold NATS wildcards.
func (c Client) ReadySubject(topic string) string { return c.prefix + ".ready." + topic }

// EventPrefix stands before the name of every event.
func (c Client) EventPrefix() string { return c.prefix + ".event." }

// Envelope is the reply to every request.
type Envelope struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`

	Raw []byte `json:"-"` // the reply as it came
}

// Error is a reply that says no.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Push stores a job. The envelope is there also beside an error, where there was an answer.
func (c Client) Push(ctx context.Context, job Job) (Pushed, Envelope, error) {
	msg, err := job.message(c.prefix)
	if err != nil {
		return Pushed{}, Envelope{}, err
	}
	var pushed Pushed
	reply, err := c.request(ctx, msg, &pushed)
	return pushed, reply, err
}

// Finish removes a job by its id and gives how many were removed: 1, or 0 where there was none.
func (c Client) Finish(ctx context.Context, id string) (int, error) {
	payload, err := json.Marshal(id) // as a JSON string any id is safe
	if err != nil {
		return 0, err
	}
	return c.finish(ctx, c.prefix+".finish", payload)
}

// Ack finishes the job that this message delivered, and waits for the confirmation.
func (c Client) Ack(ctx context.Context, msg *nats.Msg) (int, error) {
	subject := msg.Reply
	if subject == "" {
		subject = msg.Header.Get(HeaderAck)
	}
	if subject == "" {
		return 0, errors.New("the message has no ack subject")
	}
	return c.finish(ctx, subject, []byte(ackFinish))
}

// Ping says whether a bridge of any prefix answers.
func (c Client) Ping(ctx context.Context) error {
	_, err := c.nc.RequestWithContext(ctx, "$SRV.PING."+serviceName, nil)
	return refine(err)
}

func (c Client) finish(ctx context.Context, subject string, payload []byte) (int, error) {
	var data struct {
		Finished int `json:"finished"`
	}
	_, err := c.request(ctx, &nats.Msg{Subject: subject, Data: payload}, &data)
	return data.Finished, err
}

// request sends msg and decodes the data of a good reply into data.
func (c Client) request(ctx context.Context, msg *nats.Msg, data any) (Envelope, error) {
	reply, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return Envelope{}, fmt.Errorf("%s: %w", msg.Subject, refine(err))
	}
	envelope := Envelope{Raw: reply.Data}
	if err := json.Unmarshal(reply.Data, &envelope); err != nil {
		return envelope, fmt.Errorf("%s: the reply is not from a bridge: %w", msg.Subject, err)
	}
	switch envelope.Code {
	case http.StatusOK, http.StatusMultiStatus:
		return envelope, decode(envelope.Data, data)
	case 0: // no envelope, but the confirmation of the stream that the bridge takes its pushes from
		return envelope, decode(reply.Data, data)
	default:
		return envelope, &Error{Code: envelope.Code, Message: envelope.Message}
	}
}

func decode(raw []byte, data any) error {
	if err := json.Unmarshal(raw, data); err != nil {
		return fmt.Errorf("read the reply %s: %w", raw, err)
	}
	return nil
}

func refine(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoBridge
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	default:
		return err
	}
}
