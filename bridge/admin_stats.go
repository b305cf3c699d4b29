package bridge

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Body        jsontext.Value      `json:"body,omitzero"`
	BodyBase64  string              `json:"body_base64,omitempty"`
	BodyBytes   int                 `json:"body_bytes,omitzero"`
	DeadReason  string              `json:"dead_reason,omitempty"`
	DeadAt      string              `json:"dead_at,omitempty"`
}

// newJobReply shows a job, with its body where that is not larger than room.
func newJobReply(job *delay.Stored, room int) jobReply {
	moment := func(t time.Time) string { return t.UTC().Format(timeFormat) }
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

type topicReply struct {
	Topic     string   `json:"topic"`
	Delayed   int64    `json:"delayed"`
	Ready     int64    `json:"ready"`
	InFlight  int64    `json:"inflight"`
	Dead      int64    `json:"dead"`
	Listening *bool    `json:"listening"`
	Paused    bool     `json:"paused"`
	Oldest    *float64 `json:"oldest_ready_s"`
}

type topicsReply struct {
	Topics []topicReply `json:"topics"`
	Cursor string       `json:"cursor"`
}

func (a *admin) topics(ctx context.Context, data []byte) envelope {
	var r struct {
		Match  string `json:"match"`
		Limit  *int   `json:"limit"`
		Cursor string `json:"cursor"`
	}
	f := decodeRequest(data, &r)
	limit := 0
	if f == nil {
		limit, f = pageLimit(r.Limit)
	}
	if f == nil && r.Match != "" && !validPattern(r.Match) {
		f = badInput("match", r.Match, "a topic, with * for a token and > for all that follows")
	}
	var at uint64
	if f == nil && r.Cursor != "" {
		var err error
		if at, err = strconv.ParseUint(r.Cursor, 36, 64); err != nil {
			f = badInput("cursor", r.Cursor, "the cursor of the page before")
		}
	}
	if f != nil {
		return f.envelope()
	}
	reply := topicsReply{Topics: []topicReply{}}
	now := a.now()
	// Buckets without the topic and pages that do not match are passed over, but not for ever.
	for deadline := now.Add(time.Second); ; {
		counts, next, err := a.queue.Topics(ctx, at, limit)
		if err != nil {
			return failed("", delay.Unknown, err)
		}
		for _, t := range counts {
			if r.Match == "" || matches(r.Match, t.Topic) {
				reply.Topics = append(reply.Topics, a.topicReply(t, now))
			}
		}
		at = next
		// A scan may give more than it was asked for: the limit is for what is asked next.
		if at == 0 || len(reply.Topics) >= limit/2 || a.now().After(deadline) {
			break
		}
	}
	if at != 0 {
		reply.Cursor = strconv.FormatUint(at, 36)
	}
	slices.SortFunc(reply.Topics, func(x, y topicReply) int { return cmp.Compare(x.Topic, y.Topic) })
	return envelope{Code: http.StatusOK, Data: reply}
}

func (a *admin) topicReply(t delay.TopicCounts, now time.Time) topicReply {
	r := topicReply{Topic: t.Topic, Delayed: t.Delayed, Ready: t.Ready, InFlight: t.InFlight, Dead: t.Dead}
	r.Listening, r.Paused = a.dispatcher.outlook(t.Topic)
	if !t.ReadySince.IsZero() {
		age := max(now.Sub(t.ReadySince), 0).Round(time.Millisecond).Seconds()
		r.Oldest = &age
	}
	return r
}

// outlook gives whether a topic has listeners, as the last delivery saw it, and whether it is paused.
func (d *dispatcher) outlook(topic string) (listening *bool, paused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[topic]; t != nil {
		listening = t.listening
	}
	return listening, d.paused[topic]
}

// validPattern reports whether a pattern is one of NATS: whole tokens are wildcards, > only the last.
func validPattern(pattern string) bool {
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		switch {
		case token == "*", token == ">" && i == len(tokens)-1:
		case token == "" || strings.ContainsAny(token, "*>"):
			return false
		}
	}
	return true
}

// matches reports whether a topic is one of a valid pattern.
func matches(pattern, topic string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(topic, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have), token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

type statsReply struct {
	Delayed  int64          `json:"delayed"`
	Ready    int64          `json:"ready"`
	InFlight int64          `json:"inflight"`
	Dead     int64          `json:"dead"`
	Topics   int            `json:"topics"`
	Due      dueReply       `json:"due"`
	Replicas []replicaReply `json:"replicas"`
	Redis    redisReply     `json:"redis"`
}

type dueReply struct {
	Minute      int64 `json:"1m"`
	FiveMinutes int64 `json:"5m"`
	Hour        int64 `json:"1h"`
	Day         int64 `json:"1d"`
	Later       int64 `json:"later"`
}

type replicaReply struct {
	ID        string `json:"id"`
	Host      string `json:"host"`
	Version   string `json:"version"`
	StartedAt string `json:"started_at"`
}

type redisReply struct {
	Version           string `json:"version"`
	UsedMemory        int64  `json:"used_memory"`
	MaxMemory         int64  `json:"maxmemory"`
	MaxMemoryPolicy   string `json:"maxmemory_policy"`
	AOFEnabled        bool   `json:"aof_enabled"`
	ConnectedReplicas int64  `json:"connected_replicas"`
}

func (a *admin) stats(ctx context.Context, data []byte) envelope {
	if f := decodeRequest(data, &struct{}{}); f != nil {
		return f.envelope()
	}
	counts, err := a.queue.Counts(ctx)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	due, err := a.queue.Timeline(ctx)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	topics, err := a.queue.TopicNumber(ctx)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	info, err := a.queue.Info(ctx)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	count := func(field string) int64 {
		n, _ := strconv.ParseInt(info[field], 10, 64) // a field that is not told is 0
		return n
	}
	return envelope{Code: http.StatusOK, Data: statsReply{
		Delayed: counts.Delayed, Ready: counts.Ready, InFlight: counts.InFlight, Dead: counts.Dead, Topics: topics,
		Due:      dueReply{due.Minute, due.FiveMinutes, due.Hour, due.Day, due.Later},
		Replicas: a.replicas.present(),
		Redis: redisReply{
			Version: info["redis_version"], UsedMemory: count("used_memory"), MaxMemory: count("maxmemory"),
			MaxMemoryPolicy: info["maxmemory_policy"], AOFEnabled: count("aof_enabled") == 1,
			ConnectedReplicas: count("connected_slaves"),
		},
	}}
}

// present gives the replicas that live.
func (r *replicas) present() []replicaReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []replicaReply{}
	for _, s := range r.slots {
		if s.Alive() {
			about := append(strings.Fields(s.About), "", "", "")
			list = append(list, replicaReply{ID: owner{s.Number, s.Process}.String(), Host: about[0], Version: about[1], StartedAt: about[2]})
		}
	}
	slices.SortFunc(list, func(x, y replicaReply) int { return cmp.Compare(x.ID, y.ID) })
	return list
}
