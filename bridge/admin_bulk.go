package bridge

import (
	"context"
	"encoding/base64"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/dqbridge/dqbridge/delay"
)

// stepJobs is how many jobs a verb over a topic handles in one step.
const stepJobs = 100

type topicRequest struct {
	Topic  string `json:"topic"`
	State  string `json:"state"`
	Limit  *int   `json:"limit"`
	Cursor string `json:"cursor"`
}

// listedState reads the state of a listing or a purge.
func listedState(text string) (delay.State, *fault) {
	switch state := delay.State(text); state {
	case delay.Delayed, delay.Ready, delay.InFlight, delay.Dead:
		return state, nil
	default:
		return delay.Unknown, badInput("state", text, "delayed, ready, inflight or dead")
	}
}

// cursor is where a listing goes on; to its user it is opaque.
type cursor struct {
	Topic  string        `json:"t"`
	State  delay.State   `json:"s"`
	Places []delay.Place `json:"p"`
}

func (c cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil { // it has only strings
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// places reads a cursor of the same listing.
func (a *admin) places(r *topicRequest, state delay.State) ([]delay.Place, *fault) {
	if r.Cursor == "" {
		return nil, nil
	}
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(r.Cursor)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	wrong := err != nil || c.Topic != r.Topic || c.State != state || len(c.Places) != a.queue.Buckets()
	for _, p := range c.Places {
		for _, n := range []string{p.Score, p.At} {
			if _, err := strconv.ParseInt(n, 10, 64); n != "" && err != nil {
				wrong = true
			}
		}
	}
	if wrong {
		return nil, badInput("cursor", r.Cursor, "the cursor of the page before, of the same topic and state")
	}
	return c.Places, nil
}

type listReply struct {
	Jobs   []jobReply `json:"jobs"`
	Cursor string     `json:"cursor"`
}

func (a *admin) list(ctx context.Context, data []byte) envelope {
	var r topicRequest
	f := decodeRequest(data, &r)
	var state delay.State
	if f == nil {
		state, f = listedState(r.State)
	}
	if f == nil && (r.Topic != "" || state == delay.Ready) {
		f = checked("topic", r.Topic, delay.CheckTopic)
	}
	limit := 0
	if f == nil {
		limit, f = pageLimit(r.Limit)
	}
	var from []delay.Place
	if f == nil {
		from, f = a.places(&r, state)
	}
	if f != nil {
		return f.envelope()
	}
	return a.fit(ctx, &r, state, from, limit)
}

// fit gives a page that fits into a message: jobs may have many headers, so a page that does not is made again, smaller.
func (a *admin) fit(ctx context.Context, r *topicRequest, state delay.State, from []delay.Place, limit int) envelope {
	for {
		page, err := a.queue.List(ctx, state, r.Topic, from, limit)
		if err != nil {
			return failed("", delay.Unknown, err)
		}
		reply := listReply{Jobs: make([]jobReply, 0, len(page.Jobs))}
		size := 0
		for i := range page.Jobs {
			reply.Jobs = append(reply.Jobs, newJobReply(&page.Jobs[i], 0))
			size += readySize(&page.Jobs[i].Job, "") + 8*len(page.Jobs[i].Headers)
		}
		if size > int(a.maxPayload()) && len(page.Jobs) > 1 {
			limit = len(page.Jobs) / 2
			continue
		}
		if page.Next != nil {
			reply.Cursor = cursor{r.Topic, state, page.Next}.String()
		}
		return envelope{Code: http.StatusOK, Data: reply}
	}
}

type kickReply struct {
	Kicked int `json:"kicked"`
}

type kickRequest struct {
	ID    string `json:"id"`
	Topic string `json:"topic"`
	Limit *int   `json:"limit"`
}

func (a *admin) kick(ctx context.Context, data []byte) envelope {
	var r kickRequest
	f := decodeRequest(data, &r)
	switch {
	case f != nil:
	case (r.ID == "") == (r.Topic == ""):
		f = badShape("id", "or topic is wanted, one of the two")
	case r.ID != "":
		f = checked("id", r.ID, delay.CheckID)
		if f == nil && r.Limit != nil {
			f = badShape("limit", "goes with topic only")
		}
	default:
		f = checked("topic", r.Topic, delay.CheckTopic)
		if f == nil && r.Limit != nil && *r.Limit < 1 {
			f = badInput("limit", strconv.Itoa(*r.Limit), "1 or more")
		}
	}
	if f != nil {
		return f.envelope()
	}
	if r.ID != "" {
		k := a.queue.Kick(ctx, []string{r.ID})[0]
		if k.Err != nil {
			return failed(r.ID, k.State, k.Err)
		}
		return envelope{Code: http.StatusOK, Data: kickReply{1}}
	}
	return a.kickTopic(ctx, r.Topic, r.Limit)
}

func (a *admin) kickTopic(ctx context.Context, topic string, limit *int) envelope {
	left := math.MaxInt
	if limit != nil {
		left = *limit
	}
	kicked := 0
	err := a.each(ctx, delay.Dead, topic, func(ids []string) (bool, error) {
		for _, k := range a.queue.Kick(ctx, ids[:min(len(ids), left-kicked)]) {
			if k.Err == nil {
				kicked++
			}
		}
		return kicked < left, nil
	})
	if err != nil {
		return unavailable(err, kickReply{kicked})
	}
	return envelope{Code: http.StatusOK, Data: kickReply{kicked}}
}

// each goes through the ids of a topic's jobs in a state, step by step, while do says to go on.
func (a *admin) each(ctx context.Context, state delay.State, topic string, do func(ids []string) (bool, error)) error {
	var from []delay.Place
	for {
		page, err := a.queue.List(ctx, state, topic, from, stepJobs)
		if err != nil {
			return err
		}
		ids := make([]string, len(page.Jobs))
		for i := range page.Jobs {
			ids[i] = page.Jobs[i].ID
		}
		more, err := do(ids)
		if err != nil || !more || page.Next == nil {
			return err
		}
		from = page.Next
	}
}

type purgeReply struct {
	Purged int `json:"purged"`
}

func (a *admin) purge(ctx context.Context, data []byte) envelope {
	var r struct {
		Topic string `json:"topic"`
		State string `json:"state"`
	}
	f := decodeRequest(data, &r)
	if f == nil {
		f = checked("topic", r.Topic, delay.CheckTopic)
	}
	var state delay.State
	if f == nil {
		state, f = listedState(r.State)
	}
	if f != nil {
		return f.envelope()
	}
	purged, err := a.purgeState(ctx, r.Topic, state)
	if err != nil {
		return unavailable(err, purgeReply{purged})
	}
	return envelope{Code: http.StatusOK, Data: purgeReply{purged}}
}

// purgeState removes the jobs of a topic in a state and gives how many, also where it met an error.
func (a *admin) purgeState(ctx context.Context, topic string, state delay.State) (int, error) {
	if state == delay.Ready {
		return a.purgeReady(ctx, topic)
	}
	purged := 0
	err := a.each(ctx, state, topic, func(ids []string) (bool, error) {
		n, err := a.queue.Purge(ctx, topic, state, ids)
		purged += n
		return true, err
	})
	return purged, err
}

func (a *admin) purgeReady(ctx context.Context, topic string) (int, error) {
	purged := 0
	for bucket := range a.queue.Buckets() {
		for left := 1; left > 0; {
			n, rest, err := a.queue.PurgeReady(ctx, bucket, topic)
			purged += n
			if err != nil {
				return purged, err
			}
			left = rest
		}
	}
	return purged, nil
}
