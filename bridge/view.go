package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// shareFor is how long a reading serves all who look at the same, liveTimeout how long one may take.
	shareFor    = 900 * time.Millisecond
	liveTimeout = 2 * time.Second
	// paceShare bounds the part of the time that goes into readings whose cost grows with the number of topics: a 20th.
	paceShare = 20
)

// pace spaces what may be costly.
type pace struct{ next time.Time }

func (p *pace) due(now time.Time) bool { return !now.Before(p.next) }

// done notes how long it took, from began until now.
func (p *pace) done(began, now time.Time) { p.next = now.Add(max(shareFor, paceShare*now.Sub(began))) }

// fresh reports whether a reading of a moment still serves.
func fresh(read, now time.Time) bool {
	age := now.Sub(read)
	return age >= 0 && age < shareFor
}

// viewKey names a page of topics.
type viewKey struct {
	match, cursor string
	limit         int
}

// view is a page of topics that is looked at. All who look at it share its readings.
type view struct {
	request topicsRequest
	from    place
	limit   int
	// viewers is how many look at it; the dashboard's mu guards it.
	viewers int

	// mu guards what follows, while it is read too: whoever comes then waits for it.
	mu    sync.Mutex
	read  time.Time
	event []byte
	// names are the topics of the page and next where the one behind it begins. They are looked for at a pace; in between
	// only the topics of the page are counted.
	names  []string
	next   string
	listed pace
}

// whole is what all views show of the store.
type whole struct {
	mu    sync.Mutex
	read  time.Time
	stats statsReply
	redis *redisState
	err   error
	// topics is the number of topics, counted at a pace.
	topics  int
	counted pace
}

// liveEvent is one event of the stream. What could not be had is left out, and Error says why.
type liveEvent struct {
	At        string      `json:"at"`
	Version   string      `json:"version"`
	Replica   string      `json:"replica"`
	MayChange bool        `json:"may_change"`
	Stats     *statsReply `json:"stats,omitzero"`
	Redis     *redisState `json:"redis,omitzero"`
	Health    healthState `json:"health"`
	Figures   liveFigures `json:"figures"`
	Topics    []liveTopic `json:"topics,omitzero"`
	Cursor    *string     `json:"cursor,omitzero"`
	Error     string      `json:"error,omitzero"`
}

// healthState is what /readyz says.
type healthState struct {
	Ready bool     `json:"ready"`
	Lines []string `json:"lines"`
}

// liveFigures are what goes through the replicas now. Percentiles are null where nothing was delivered.
type liveFigures struct {
	// Replicas live, and so many of them have answered.
	Replicas int      `json:"replicas"`
	Answered int      `json:"answered"`
	In       float64  `json:"in_per_s"`
	Out      float64  `json:"out_per_s"`
	Finished float64  `json:"finished_per_s"`
	LateP50  *float64 `json:"late_p50_ms"`
	LateP99  *float64 `json:"late_p99_ms"`
}

// liveTopic is a topic with what goes through the replicas; rates are null where there are too many topics to count each.
type liveTopic struct {
	topicReply
	In      *float64 `json:"in_per_s"`
	Out     *float64 `json:"out_per_s"`
	LateP50 *float64 `json:"late_p50_ms"`
	LateP99 *float64 `json:"late_p99_ms"`
}

// look gives the present event of a view.
func (d *dashboard) look(v *view) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := d.now()
	if v.event != nil && fresh(v.read, now) {
		return v.event, nil
	}
	ctx, cancel := context.WithTimeout(d.admin.ctx, liveTimeout)
	defer cancel()
	e := liveEvent{
		At: formatTime(now), Version: d.version, Replica: d.acks.dispatcher.name(), MayChange: d.mayChange,
	}
	e.Health.Ready, e.Health.Lines = judge(d.health.ready, d.concerns.lines)
	var err error
	e.Stats, e.Redis, err = d.lookAtAll(ctx)
	var topics []topicReply
	if err == nil {
		topics, err = d.readTopics(ctx, v)
	}
	figures, listed := d.lookAtFlows(d.admin.ctx, topics)
	e.Figures = figures
	if err == nil {
		e.Topics, e.Cursor = listed, &v.next
	} else {
		e.Error = notRead(err)
	}
	data, err := json.Marshal(e, json.Deterministic(true))
	if err == nil {
		v.event, v.read = data, now
	}
	return data, err
}

// notRead says why something could not be read.
func notRead(err error) string {
	if away := (*delay.UnavailableError)(nil); errors.As(err, &away) {
		return "redis does not answer: " + away.Cause.Error()
	}
	return err.Error()
}

// lookAtAll gives the figures of the whole store, and what Redis says of itself.
func (d *dashboard) lookAtAll(ctx context.Context) (*statsReply, *redisState, error) {
	w := &d.whole
	w.mu.Lock()
	defer w.mu.Unlock()
	if !fresh(w.read, d.now()) {
		w.read = d.now()
		w.err = d.readAll(ctx, w)
	}
	if w.err != nil {
		return nil, nil, w.err
	}
	stats := w.stats
	return &stats, w.redis, nil
}

func (d *dashboard) readAll(ctx context.Context, w *whole) error {
	infos, err := d.admin.queue.Infos(ctx)
	if err != nil {
		return err
	}
	d.countTopics(ctx, w)
	stats, err := d.admin.readStats(ctx, infos)
	if err != nil {
		return err
	}
	stats.Topics = w.topics
	w.stats, w.redis = stats, newRedisState(infos, d.concerns.lines())
	return nil
}

// countTopics counts the topics, where it is time. A count that cannot be had leaves the one before.
func (d *dashboard) countTopics(ctx context.Context, w *whole) {
	began := d.now()
	if !w.counted.due(began) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout/2)
	defer cancel()
	n, err := d.admin.queue.TopicNumber(ctx)
	if err == nil {
		w.topics = n
	}
	w.counted.done(began, d.now())
}

// lookAtFlows asks all replicas what goes through them, and gives it beside the topics.
func (d *dashboard) lookAtFlows(ctx context.Context, topics []topicReply) (liveFigures, []liveTopic) {
	names := namesOf(topics)
	answers, replicas := d.acks.peers.ask(ctx, peerQuestion{Topics: names})
	flows := make([]flow, len(answers))
	for i := range answers {
		flows[i] = answers[i].All
	}
	all := mergeFlows(flows)
	figures := liveFigures{
		Replicas: replicas, Answered: len(answers), In: all.in, Out: all.out, Finished: all.finished,
		LateP50: all.late.percentile(0.5), LateP99: all.late.percentile(0.99),
	}
	list := make([]liveTopic, len(topics))
	for at, t := range topics {
		for i := range answers {
			flows[i] = answers[i].Topics[at]
		}
		sum := mergeFlows(flows)
		list[at] = liveTopic{topicReply: t, LateP50: sum.late.percentile(0.5), LateP99: sum.late.percentile(0.99)}
		if sum.known {
			list[at].In, list[at].Out = &sum.in, &sum.out
		}
	}
	return figures, list
}

func namesOf(topics []topicReply) []string {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Topic
	}
	return names
}

// readTopics gives the topics of a view.
func (d *dashboard) readTopics(ctx context.Context, v *view) ([]topicReply, error) {
	began := d.now()
	if !v.listed.due(began) {
		return d.admin.countTopics(ctx, v.names)
	}
	page, err := d.admin.readTopics(ctx, &v.request, v.from, v.limit)
	v.listed.done(began, d.now())
	if err != nil {
		return nil, err
	}
	v.names, v.next = namesOf(page.Topics), page.Cursor
	return page.Topics, nil
}
