package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Job is what a push says. Empty fields are left out, and the bridge's defaults hold.
type Job struct {
	ID          string  `json:"id,omitempty"`
	Topic       string  `json:"topic"`
	Delay       Value   `json:"delay,omitempty"`
	At          Value   `json:"at,omitempty"`
	TTR         Value   `json:"ttr,omitempty"`
	MaxAttempts Value   `json:"max_attempts,omitempty"`
	Backoff     []Value `json:"backoff,omitempty"`
	Expires     Value   `json:"expires,omitempty"`
	OnDuplicate string  `json:"on_duplicate,omitempty"`

	// Body is JSON, and travels byte for byte; with Raw it is any bytes. Nil: no body.
	Body []byte `json:"-"`
	// Raw pushes in the header form.
	Raw bool `json:"-"`
	// Headers go along to the worker.
	Headers nats.Header `json:"-"`
}

// Value is a number or a text of the contract, such as "1.5" or "1m30s": the first is sent as a JSON number, digit
// for digit, the second as a string.
type Value string

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.isNumber() {
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// isNumber: of all JSON values only numbers begin with a digit or a minus.
func (v Value) isNumber() bool {
	return v != "" && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') && json.Valid([]byte(v))
}

// Pushed is the answer to a push.
type Pushed struct {
	ID        string    `json:"id"`
	DueAt     time.Time `json:"due_at"`
	Duplicate bool      `json:"duplicate"`
	Replaced  bool      `json:"replaced"`
	State     string    `json:"state"` // of the job that a duplicate met

	// Stream and Seq are set instead where the bridge takes its pushes from a stream: the job lies there so far.
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
}

// message builds the push. It goes to the topic's own subject, so that a pusher needs no wider permission; a topic
// that cannot be part of a subject goes in the JSON alone, and the bridge says what is wrong with it.
func (j Job) message(prefix string) (*nats.Msg, error) {
	msg := nats.NewMsg(prefix + ".push")
	if isSubject(j.Topic) {
		msg.Subject += "." + j.Topic
	} else if j.Raw {
		return nil, fmt.Errorf("topic %q %w", j.Topic, ErrNoSubject)
	}
	for name, values := range j.Headers {
		msg.Header[name] = values
	}
	if j.Raw {
		j.addHeaders(msg.Header)
		msg.Data = j.Body
		return msg, nil
	}
	var err error
	msg.Data, err = j.encode()
	return msg, err
}

// encode puts the body in by hand: encoding/json would take the white space out of it.
func (j Job) encode() ([]byte, error) {
	data, err := json.Marshal(j)
	if err != nil || j.Body == nil {
		return data, err
	}
	if !json.Valid(j.Body) {
		return nil, errors.New("the body is not JSON")
	}
	data = append(data[:len(data)-1], `,"body":`...)
	data = append(data, j.Body...)
	return append(data, '}'), nil
}

func (j Job) addHeaders(header nats.Header) {
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	header.Set(HeaderTopic, j.Topic) // one Dq- header must be there, or the body would be taken for the job
	set(HeaderID, j.ID)
	set("Dq-Delay", string(j.Delay))
	set("Dq-At", string(j.At))
	set("Dq-Ttr", string(j.TTR))
	set("Dq-Max-Attempts", string(j.MaxAttempts))
	set("Dq-Expires", string(j.Expires))
	set("Dq-On-Duplicate", j.OnDuplicate)
	pauses := make([]string, len(j.Backoff))
	for i, pause := range j.Backoff {
		pauses[i] = string(pause)
	}
	set("Dq-Backoff", strings.Join(pauses, ","))
}

func isSubject(topic string) bool {
	for token := range strings.SplitSeq(topic, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n\f\v*>") {
			return false
		}
	}
	return true
}
