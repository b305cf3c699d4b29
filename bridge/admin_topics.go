package bridge

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

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

type topicsRequest struct {
	Match  string `json:"match"`
	Limit  *int   `json:"limit"`
	Cursor string `json:"cursor"`
}

// place is where a listing of topics goes on: at a position of the store's scan, behind a topic of that page of it.
type place struct {
	at     uint64
	behind string
}

func (p place) String() string {
	return strconv.FormatUint(p.at, 36) + "." + base64.RawURLEncoding.EncodeToString([]byte(p.behind))
}

func parsePlace(cursor string) (place, error) {
	at, behind, _ := strings.Cut(cursor, ".")
	position, err := strconv.ParseUint(at, 36, 64)
	name, err2 := base64.RawURLEncoding.DecodeString(behind)
	return place{position, string(name)}, errors.Join(err, err2)
}

// page checks the request and gives how many topics it asks for, and from where on.
func (r *topicsRequest) page() (int, place, *fault) {
	limit, f := pageLimit(r.Limit)
	if f == nil && r.Match != "" && !validPattern(r.Match) {
		f = badInput("match", r.Match, "a topic, with * for a token and > for all that follows")
	}
	if f != nil || r.Cursor == "" {
		return limit, place{}, f
	}
	from, err := parsePlace(r.Cursor)
	if err != nil {
		return 0, place{}, badInput("cursor", r.Cursor, "the cursor of the page before")
	}
	return limit, from, nil
}

func (r *topicsRequest) wants(topic string) bool { return r.Match == "" || matches(r.Match, topic) }

// topics gives a page of topics with their figures.
func (a *admin) topics(ctx context.Context, data []byte) envelope {
	var r topicsRequest
	f := decodeRequest(data, &r)
	limit, from := 0, place{}
	if f == nil {
		limit, from, f = r.page()
	}
	if f != nil {
		return f.envelope()
	}
	reply, err := a.readTopics(ctx, &r, from, limit)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	return envelope{Code: http.StatusOK, Data: reply}
}

// readTopics reads a page of topics.
func (a *admin) readTopics(ctx context.Context, r *topicsRequest, from place, limit int) (topicsReply, error) {
	reply := topicsReply{Topics: []topicReply{}}
	if r.Match != "" && !strings.ContainsAny(r.Match, "*>") { // a single topic need not be looked for
		topics, err := a.countTopics(ctx, []string{r.Match})
		if err == nil && !topics[0].empty() {
			reply.Topics = topics
		}
		return reply, err
	}
	// Pages of the scan without a topic that is wanted are passed over, but not for ever.
	for deadline := a.now().Add(time.Second); ; {
		next, err := a.addTopics(ctx, r, from, limit, &reply)
		if err != nil {
			return reply, err
		}
		if from = next; from == (place{}) {
			break
		}
		if len(reply.Topics) == limit || a.now().After(deadline) {
			reply.Cursor = from.String()
			break
		}
	}
	slices.SortFunc(reply.Topics, func(x, y topicReply) int { return cmp.Compare(x.Topic, y.Topic) })
	return reply, nil
}

// countTopics reads the figures of topics that are known by name, in their order, also where they have no jobs.
func (a *admin) countTopics(ctx context.Context, names []string) ([]topicReply, error) {
	counts, err := a.queue.CountTopics(ctx, 0, names)
	if err != nil {
		return nil, err
	}
	now := a.now()
	topics := make([]topicReply, len(counts))
	for i, t := range counts {
		topics[i] = a.topicReply(t, now)
	}
	return topics, nil
}

// empty reports whether there is no job of the topic.
func (r *topicReply) empty() bool { return r.Delayed+r.Ready+r.InFlight+r.Dead == 0 }

// addTopics adds what is wanted of one page of the store's scan, up to the limit, and gives where to go on. The scan may
// give more than it was asked for: then its page is read once more, from behind the last topic on.
func (a *admin) addTopics(ctx context.Context, r *topicsRequest, from place, limit int, reply *topicsReply) (place, error) {
	counts, next, err := a.queue.Topics(ctx, from.at, limit)
	if err != nil {
		return place{}, err
	}
	now := a.now()
	for _, t := range counts {
		if t.Topic <= from.behind || !r.wants(t.Topic) {
			continue
		}
		if len(reply.Topics) == limit {
			return place{from.at, reply.Topics[limit-1].Topic}, nil
		}
		reply.Topics = append(reply.Topics, a.topicReply(t, now))
	}
	return place{at: next}, nil
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

// outlook gives whether a topic has listeners, as the last delivery saw it (nil: there was none yet), and whether it is
// paused.
func (d *dispatcher) outlook(topic string) (*bool, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var listening *bool
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
