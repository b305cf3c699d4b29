package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
)

// Seconds is a length of time on the wire.
type Seconds float64

// Duration is the same as Go's.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Stored is a job as get and list show it. What does not apply to its state is zero.
type Stored struct {
	ID          string          `json:"id"`
	Topic       string          `json:"topic"`
	State       string          `json:"state"`
	Attempt     int             `json:"attempt"`
	DueAt       time.Time       `json:"due_at"`
	FirstDueAt  time.Time       `json:"first_due_at"`
	DeadlineAt  time.Time       `json:"deadline_at"`
	PushedAt    time.Time       `json:"pushed_at"`
	Delay       Seconds         `json:"delay"`
	TTR         Seconds         `json:"ttr"`
	MaxAttempts int             `json:"max_attempts"`
	Backoff     []Seconds       `json:"backoff"`
	Expires     Seconds         `json:"expires"`
	Headers     nats.Header     `json:"headers"`
	Body        json.RawMessage `json:"body"`
	BodyBase64  []byte          `json:"body_base64"` // a body that is not JSON
	BodyBytes   int             `json:"body_bytes"`  // the size of one that did not fit the reply
	DeadReason  string          `json:"dead_reason"`
	DeadAt      time.Time       `json:"dead_at"`
}

// Listing asks for a page of jobs. The cursor is that of the page before.
type Listing struct {
	Topic  string `json:"topic,omitempty"`
	State  string `json:"state"`
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// Page is a page of jobs. It is the last one where it has no cursor, even if it is empty.
type Page struct {
	Jobs   []Stored `json:"jobs"`
	Cursor string   `json:"cursor"`
}

// TopicListing asks for a page of topics.
type TopicListing struct {
	Match  string `json:"match,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// Topic is a topic and how many jobs it has in each state.
type Topic struct {
	Topic     string   `json:"topic"`
	Delayed   int64    `json:"delayed"`
	Ready     int64    `json:"ready"`
	InFlight  int64    `json:"inflight"`
	Dead      int64    `json:"dead"`
	Listening *bool    `json:"listening"` // as the last delivery saw it; nil: none so far
	Paused    bool     `json:"paused"`
	Oldest    *Seconds `json:"oldest_ready_s"`
}

// TopicPage is a page of topics, the last one where it has no cursor.
type TopicPage struct {
	Topics []Topic `json:"topics"`
	Cursor string  `json:"cursor"`
}

// Stats is the whole installation in numbers.
type Stats struct {
	Delayed  int64     `json:"delayed"`
	Ready    int64     `json:"ready"`
	InFlight int64     `json:"inflight"`
	Dead     int64     `json:"dead"`
	Topics   int64     `json:"topics"`
	Due      Due       `json:"due"`
	Replicas []Replica `json:"replicas"`
	Redis    Redis     `json:"redis"`
}

// Due is how many delayed jobs become due when; each is counted once.
type Due struct {
	Minute      int64 `json:"1m"`
	FiveMinutes int64 `json:"5m"`
	Hour        int64 `json:"1h"`
	Day         int64 `json:"1d"`
	Later       int64 `json:"later"`
}

// Replica is a running bridge.
type Replica struct {
	ID        string `json:"id"`
	Host      string `json:"host"`
	Version   string `json:"version"`
	StartedAt string `json:"started_at"` // as the replica wrote it
}

// Redis is what the store says of itself.
type Redis struct {
	Version           string `json:"version"`
	UsedMemory        int64  `json:"used_memory"`
	MaxMemory         int64  `json:"maxmemory"` // 0: no limit
	MaxMemoryPolicy   string `json:"maxmemory_policy"`
	AOFEnabled        bool   `json:"aof_enabled"`
	ConnectedReplicas int64  `json:"connected_replicas"`
}

// Changed is a job after a verb: due at a moment, or in flight until its deadline.
type Changed struct {
	ID         string    `json:"id"`
	State      string    `json:"state"`
	DueAt      time.Time `json:"due_at"`
	DeadlineAt time.Time `json:"deadline_at"`
}

// Admin asks for an operator's verb. The envelope is there also beside an error, where there was an answer.
func (c Client) Admin(ctx context.Context, verb string, ask, data any) (Envelope, error) {
	payload, err := json.Marshal(ask)
	if err != nil {
		return Envelope{}, err
	}
	return c.request(ctx, &nats.Msg{Subject: c.prefix + ".admin." + verb, Data: payload}, data)
}
