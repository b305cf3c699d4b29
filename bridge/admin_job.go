package bridge

import (
	"encoding/base64"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dqbridge/dqbridge/delay"
)

// jobReply is a job as get and list give it.
type jobReply struct {
	ID          string              `json:"id"`
	Topic       string              `json:"topic"`
	State       delay.State         `json:"state"`
	Attempt     int                 `json:"attempt"`
	DueAt       string              `json:"due_at"`
	FirstDueAt  string              `json:"first_due_at"`
	DeadlineAt  string              `json:"deadline_at,omitempty"`
	PushedAt    string              `json:"pushed_at"`
	Delay       jsontext.Value      `json:"delay"`
	TTR         jsontext.Value      `json:"ttr"`
	MaxAttempts int                 `json:"max_attempts"`
	Backoff     []jsontext.Value    `json:"backoff,omitempty"`
	Expires     jsontext.Value      `json:"expires,omitzero"`
	Headers     map[string][]string `json:"headers,omitempty"`
	// Body is put in by hand: it is given byte for byte as it was pushed.
	Body       jsontext.Value `json:"-"`
	BodyBase64 string         `json:"body_base64,omitempty"`
	BodyBytes  int            `json:"body_bytes,omitzero"`
	DeadReason string         `json:"dead_reason,omitempty"`
	DeadAt     string         `json:"dead_at,omitempty"`
}

// newJobReply shows a job, with its body where that is not larger than room.
func newJobReply(job *delay.Stored, room int) jobReply {
	moment := formatTime
	r := jobReply{
		ID: job.ID, Topic: job.Topic, State: job.State, Attempt: job.Attempts, DueAt: moment(job.DueAt), FirstDueAt: moment(job.DueAt),
		PushedAt: moment(job.PushedAt), Delay: appendSeconds(nil, job.Delay), TTR: appendSeconds(nil, job.TTR),
		MaxAttempts: job.MaxAttempts, Headers: decodeHeaders(job.Headers),
	}
	for _, pause := range job.Backoff {
		r.Backoff = append(r.Backoff, appendSeconds(nil, pause))
	}
	if job.Expires > 0 {
		r.Expires = appendSeconds(nil, job.Expires)
	}
	switch job.State {
	case delay.Delayed:
		r.DueAt = moment(job.At)
	case delay.InFlight:
		r.DeadlineAt = moment(job.At)
	case delay.Dead:
		r.DeadAt, r.DeadReason = moment(job.At), job.Reason
	default: // ready: since when is not known
	}
	r.setBody(job, room)
	return r
}

func (r *jobReply) setBody(job *delay.Stored, room int) {
	switch {
	case room == 0 || len(job.Body) == 0:
	case job.Raw && base64.StdEncoding.EncodedLen(len(job.Body)) <= room:
		r.BodyBase64 = base64.StdEncoding.EncodeToString(job.Body)
	case !job.Raw && len(job.Body) <= room:
		r.Body = job.Body
	default:
		r.BodyBytes = len(job.Body)
	}
}

// appendJSON implements jsonAppender.
func (r jobReply) appendJSON(dst []byte) []byte {
	encoded, err := json.Marshal(r, json.Deterministic(true))
	if err != nil { // it holds nothing that cannot be encoded
		return append(dst, "null"...)
	}
	if r.Body == nil {
		return append(dst, encoded...)
	}
	dst = append(append(dst, encoded[:len(encoded)-1]...), `,"body":`...)
	return append(append(dst, r.Body...), '}')
}
