package bridge

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

// historyReply is what went through all replicas in each minute of the last hour, the oldest first; the last is the running one.
type historyReply struct {
	Step     int        `json:"step_s"`
	Until    string     `json:"until"`
	In       []uint64   `json:"in"`
	Out      []uint64   `json:"out"`
	Finished []uint64   `json:"finished"`
	LateP50  []*float64 `json:"late_p50_ms"`
	LateP99  []*float64 `json:"late_p99_ms"`
	// Kept says that at least one replica keeps the topic's last hour.
	Kept bool `json:"kept"`
}

// history gives the last hour of a topic, or of all.
func (d *dashboard) history(_ http.ResponseWriter, r *http.Request) envelope {
	if f := knownParameters(r, "topic"); f != nil {
		return f.envelope()
	}
	topic := r.URL.Query().Get("topic")
	if topic != "" {
		if f := checked("topic", topic, delay.CheckTopic); f != nil {
			return f.envelope()
		}
	}
	return d.read(r.Context(), func(ctx context.Context) envelope {
		answers, _ := d.acks.peers.ask(ctx, peerQuestion{Hour: &topic})
		reply := mergeHours(answers)
		reply.Until = formatTime(d.now())
		return envelope{Code: http.StatusOK, Data: reply}
	})
}

// mergeHours adds up what the replicas say, minute by minute.
func mergeHours(answers []peerAnswer) historyReply {
	reply := historyReply{Step: int(time.Minute.Seconds())}
	var lates [pastMinutes]histogram
	for i := range answers {
		h := answers[i].Hour
		if h == nil || !h.Kept {
			continue
		}
		if !reply.Kept {
			reply.Kept = true
			reply.In, reply.Out, reply.Finished = make([]uint64, pastMinutes), make([]uint64, pastMinutes), make([]uint64, pastMinutes)
		}
		for minute := range pastMinutes {
			reply.In[minute] += h.In[minute]
			reply.Out[minute] += h.Out[minute]
			reply.Finished[minute] += h.Finished[minute]
			lates[minute].merge(h.Late[minute])
		}
	}
	for minute := 0; minute < pastMinutes && reply.Kept; minute++ {
		reply.LateP50 = append(reply.LateP50, lates[minute].percentile(0.5))
		reply.LateP99 = append(reply.LateP99, lates[minute].percentile(0.99))
	}
	return reply
}

// timelineReply is how many delayed jobs become due when.
type timelineReply struct {
	Step    int     `json:"step_s"`
	From    string  `json:"from"`
	Counts  []int64 `json:"counts"`
	Overdue int64   `json:"overdue"`
	Later   int64   `json:"later"`
}

// timelineRange is a time to come, in slots.
type timelineRange struct {
	step  time.Duration
	slots int
}

func timelineRanges() map[string]timelineRange {
	return map[string]timelineRange{"1m": {time.Second, 60}, "1h": {time.Minute, 60}, "1d": {time.Hour, 24}}
}

// timeline is a range with its last reading, which all share who ask for it.
type timeline struct {
	timelineRange

	mu    sync.Mutex
	read  time.Time
	reply envelope
}

// dueTimes gives what becomes due within a range.
func (d *dashboard) dueTimes(_ http.ResponseWriter, r *http.Request) envelope {
	if f := knownParameters(r, "range"); f != nil {
		return f.envelope()
	}
	name := r.URL.Query().Get("range")
	t := d.timelines[name]
	if t == nil {
		return badInput("range", name, "1m, 1h or 1d").envelope()
	}
	return d.read(r.Context(), func(ctx context.Context) envelope {
		t.mu.Lock()
		defer t.mu.Unlock()
		if now := d.now(); !fresh(t.read, now) {
			t.read = now
			t.reply = d.readTimeline(ctx, t.timelineRange)
		}
		return t.reply
	})
}

func (d *dashboard) readTimeline(ctx context.Context, span timelineRange) envelope {
	due, err := d.admin.queue.Due(ctx, span.step, span.slots)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	return envelope{Code: http.StatusOK, Data: timelineReply{
		Step: int(span.step.Seconds()), From: formatTime(due.From), Counts: due.Slots, Overdue: due.Overdue,
		Later: due.Later,
	}}
}

// read carries out a reading within the bounds on admin requests.
func (d *dashboard) read(client context.Context, do func(ctx context.Context) envelope) envelope {
	request := newWebRequest("", nil)
	d.admin.carryOut(func(ctx context.Context, _ []byte) envelope { //nolint:contextcheck // others may share what is read
		ctx, cancel := context.WithTimeout(ctx, liveTimeout)
		defer cancel()
		return do(ctx)
	}, nil, request.answer)
	return request.wait(client)
}
