package bridge

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// labelledTopics bounds how many topics have figures of their own; the rest share otherTopics.
	labelledTopics = 200
	otherTopics    = "_other"
	metricPrefix   = "dqbridge_"
)

// Why a delivery was taken back.
const (
	// returnedNobody: nobody listened. returnedStream: the stream that listened refused it.
	returnedNobody = "nobody"
	returnedStream = "stream"
	// returnedDenied: NATS does not let the bridge publish there. returnedLost: the connection failed meanwhile.
	returnedDenied = "denied"
	returnedLost   = "connection"
)

// metrics are the figures of one replica. What is counted on the way of a job is looked up once, here, and not for each job.
type metrics struct {
	registry *prometheus.Registry
	log      zerolog.Logger
	figures  *figures
	loud     *rate.Limiter
	// denials bounds how often it is logged that Redis denies something.
	denials *rate.Limiter

	deliveries, finished, orphans  prometheus.Counter
	leasesRunOut, ttrsRunOut       prometheus.Counter
	pushes                         choices[int]
	verbs                          choices[delay.Verb]
	redeliveries                   choices[delay.Ending]
	returned, dead, dropped, found choices[string]
	duplicates                     choices[string]
	rejections                     map[rejection]prometheus.Counter
	otherRejections, errors        *prometheus.CounterVec
	lateness                       *prometheus.HistogramVec
	scripts                        scriptFigures

	// mu guards the topics that have a label.
	mu     sync.Mutex
	topics map[string]bool
}

func newMetrics(version string, now func() time.Time, log zerolog.Logger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), log: log, loud: rate.NewLimiter(rate.Every(time.Second), 3), denials: rate.NewLimiter(rate.Every(time.Minute), 1),
		topics: make(map[string]bool), figures: newFigures(now), rejections: make(map[rejection]prometheus.Counter),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.deliveries = m.counter("deliveries_total", "Deliveries that are certain.")
	m.finished = m.counter("finishes_total", "Jobs finished.")
	m.orphans = m.counter("orphans_total", "Ids without a record that were dropped.")
	m.leasesRunOut = m.counter("leases_run_out_total", "Leases that were over before it was certain that their job was delivered.")
	m.ttrsRunOut = m.counter("ttrs_run_out_total", "Deliveries that were not finished within their time to run.")
	m.pushes = choose(m.vector("pushes_total", "Jobs pushed, by the code of their answer.", "code"), 200, 400, 409, 503)
	m.duplicates = choose(m.vector("duplicates_total", "Pushes of an id that was stored already, by what became of the stored job.", "outcome"),
		"kept", "replaced")
	m.redeliveries = choose(m.vector("redeliveries_total",
		"Deliveries that are certain and not the first of their job, by how the one before ended.", "reason"),
		delay.EndedTTR, delay.EndedReleased, delay.EndedReturned)
	m.returned = choose(m.vector("returned_total", "Deliveries taken back, by reason.", "reason"),
		returnedNobody, returnedDenied, returnedLost, returnedStream)
	m.verbs = choose(m.vector("verbs_total", "Verbs of workers that were carried out.", "verb"),
		delay.VerbFinish, delay.VerbRelease, delay.VerbTouch, delay.VerbBury)
	m.dead = choose(m.vector("dead_total", "Jobs that died, by reason.", "reason"), "max_attempts", "buried", "expired", "too_large")
	m.dropped = choose(m.vector("dead_dropped_total", "Dead jobs dropped for their age, or because there were too many.", "limit"), "age", "number")
	m.found = choose(m.vector("findings_total", "What the sweep of the store met that should not be, by kind.", "kind"),
		delay.FoundOrphan, delay.FoundDouble, delay.FoundLost, delay.FoundUnknown, delay.FoundStale, delay.FoundInactive,
		delay.FoundCounter, delay.FoundBusy)
	m.otherRejections = m.vector("rejections_total", "Requests refused, by the code of their answer and the reason.", "code", "reason")
	for _, known := range rejections() {
		m.rejections[known] = m.otherRejections.WithLabelValues(strconv.Itoa(known.code), string(known.reason))
	}
	m.errors = m.vector("errors_total", "Duties that could not be done and are tried again.", "duty")
	m.lateness = m.histogram("lateness_seconds", "Time from due to delivery of first attempts, by topic.", "topic",
		.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600, 3600)
	m.scripts = newScriptFigures(m)
	info := m.gauges("build_info", "1, for what runs here.", "version", "go")
	info.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	return promauto.With(m.registry).NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
}

func (m *metrics) vector(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	return promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help})
}

func (m *metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(m.registry).NewGaugeVec(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, labels)
}

// reading registers a figure that is read when it is asked for.
func (m *metrics) reading(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, read))
}

// total is as reading, for a figure that only grows.
func (m *metrics) total(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, read))
}

// histogram has the classic buckets for who scrapes text, and native ones for who scrapes protobuf.
func (m *metrics) histogram(name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricPrefix + name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1,
	}, []string{label})
	m.registry.MustRegister(h)
	return h
}

// flag is a figure that is 1 or 0.
func flag(is func() bool) func() float64 {
	return func() float64 {
		if is() {
			return 1
		}
		return 0
	}
}

// watch registers what the parts of a bridge tell when they are asked.
func (m *metrics) watch(b *Bridge) {
	m.registry.MustRegister(&storeFigures{queue: b.queue, up: &b.health.started, now: b.now, prefix: b.options.Prefix},
		&dispatchFigures{dispatcher: b.dispatcher, metrics: m})
	m.registry.MustRegister(b.concerns.collectors()...)
	m.reading("ready", "1 where the replica is ready: it has Redis and NATS, serves, and its tickers run.",
		flag(func() bool { return b.health.ready() == nil }))
	m.reading("redis_up", "1 where Redis answers.", flag(b.health.redis.Load))
	m.reading("nats_up", "1 where NATS is connected.", flag(b.link.IsConnected))
	m.reading("replicas", "Replicas on this store that live, this one among them.", func() float64 { return float64(len(b.replicas.present())) })
	m.total("nats_reconnects_total", "Connections to NATS that were made anew.", func() float64 { return float64(b.link.Stats().Reconnects) })
	m.total("nats_slow_consumer_dropped_total", "Messages that the NATS client dropped since the replica did not keep up.",
		func() float64 { return float64(b.link.slow.dropped()) })
	m.total("redis_pool_timeouts_total", "Calls that got no connection to Redis in time.",
		func() float64 { return float64(b.queue.Pool().Timeouts) })
	m.reading("redis_connections", "Connections to Redis.", func() float64 { return float64(b.queue.Pool().Open) })
}

func (m *metrics) pushed(topic string, code int, p delay.Pushed) {
	m.pushes.of(code).Inc()
	switch {
	case p.Duplicate:
		m.duplicates.of("kept").Inc()
		return
	case p.Replaced:
		m.duplicates.of("replaced").Inc()
	}
	if p.Err == nil {
		m.figures.pushed(topic)
	}
}

func (m *metrics) finish(topic string) {
	m.finished.Inc()
	m.figures.finished(topic)
}

func (m *metrics) rejected(code int, why reason) {
	if c, known := m.rejections[rejection{code, why}]; known {
		c.Inc()
		return
	}
	m.otherRejections.WithLabelValues(strconv.Itoa(code), string(reasonOther)).Inc()
}

func (m *metrics) delivered(flights []*flight, now time.Time) {
	m.deliveries.Add(float64(len(flights)))
	for _, f := range flights {
		if f.attempt > 1 {
			m.redeliveries.of(f.before).Inc()
			continue
		}
		m.latenessOf(f.topic).Observe(f.late.Seconds())
	}
	m.figures.delivered(flights, now)
}

// latenessOf gives the histogram of a topic, or that of all without one.
func (m *metrics) latenessOf(t *topic) prometheus.Observer {
	if o := t.lateness.Load(); o != nil {
		return *o
	}
	o := m.lateness.WithLabelValues(m.label(t.name))
	t.lateness.Store(&o)
	return o
}

// label gives the label of a topic: its name, while not too many have one.
func (m *metrics) label(topic string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.topics[topic] {
		if len(m.topics) >= labelledTopics {
			return otherTopics
		}
		m.topics[topic] = true
	}
	return topic
}

// labelled gives the topics that have a label.
func (m *metrics) labelled() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.topics))
}

// died counts a dead job. The text behind a reason is the worker's and no label.
func (m *metrics) died(reason string) {
	kind, _, _ := strings.Cut(reason, ":")
	m.dead.of(kind).Inc()
}

// trouble counts a duty that failed and is tried again. Redis being away is told by health; the rest is logged here.
func (m *metrics) trouble(duty string, err error) {
	m.errors.WithLabelValues(duty).Inc()
	if errors.Is(err, delay.ErrDenied) {
		if m.denials.Allow() {
			m.log.Error().Err(err).Str("duty", duty).Msg("redis denies what the bridge needs")
		}
		return
	}
	var away *delay.UnavailableError
	if errors.As(err, &away) && !away.Odd || errors.Is(err, errAway) || errors.Is(err, context.Canceled) {
		m.log.Debug().Err(err).Str("duty", duty).Msg("duty fails, it is tried again")
		return
	}
	if m.loud.Allow() {
		m.log.Warn().Err(err).Str("duty", duty).Msg("duty fails, it is tried again")
	}
}
