package bridge

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// labelledTopics bounds how many topics have a lateness of their own; the rest share otherTopics.
	labelledTopics = 200
	otherTopics    = "_other"
	// countsFor is how long a reading of the store's counters serves.
	countsFor = time.Second
)

// metrics are the figures of one replica.
type metrics struct {
	registry *prometheus.Registry
	log      zerolog.Logger
	figures  *figures
	loud     *rate.Limiter
	// denials bounds how often it is logged that Redis denies something.
	denials *rate.Limiter

	pushes, duplicates              *prometheus.CounterVec
	deliveries, redeliveries        prometheus.Counter
	returned, finished, orphans     prometheus.Counter
	verbs, rejections, errors, dead *prometheus.CounterVec
	dropped, findings               *prometheus.CounterVec
	lateness                        *prometheus.HistogramVec

	// mu guards the topics that have a label.
	mu     sync.Mutex
	topics map[string]bool
}

func newMetrics(queue *delay.Queue, h *health, log zerolog.Logger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), log: log, loud: rate.NewLimiter(rate.Every(time.Second), 3), denials: rate.NewLimiter(rate.Every(time.Minute), 1),
		topics: make(map[string]bool), figures: newFigures(h.now),
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "dqbridge_" + name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dqbridge_" + name, Help: help}, []string{label})
		m.registry.MustRegister(c)
		return c
	}
	m.pushes = vector("pushes_total", "Jobs pushed, by the code of their answer.", "code")
	m.duplicates = vector("duplicates_total", "Pushes of an id that was stored already.", "outcome")
	m.deliveries = counter("deliveries_total", "Deliveries that are certain.")
	m.redeliveries = counter("redeliveries_total", "Deliveries that are certain and not the first of their job.")
	m.returned = counter("returned_total", "Deliveries taken back: nobody listened, or the connection failed.")
	m.finished = counter("finishes_total", "Jobs finished.")
	m.orphans = counter("orphans_total", "Ids without a record that were dropped.")
	m.verbs = vector("verbs_total", "Verbs of workers that were carried out.", "verb")
	m.rejections = vector("rejections_total", "Requests refused, by the code of their answer.", "code")
	m.errors = vector("errors_total", "Duties that could not be done and are tried again.", "duty")
	m.dead = vector("dead_total", "Jobs that died, by reason.", "reason")
	m.findings = vector("findings_total", "What the sweep of the store met that should not be, by kind.", "kind")
	m.dropped = vector("dead_dropped_total", "Dead jobs dropped for their age, or because there were too many.", "limit")
	m.lateness = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "dqbridge_lateness_seconds", Help: "Time from due to delivery of first attempts, by topic.",
		Buckets:                     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600, 3600},
		NativeHistogramBucketFactor: 1.1,
	}, []string{"topic"})
	m.registry.MustRegister(m.lateness, &storeCollector{queue: queue, now: h.now},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for name, up := range map[string]func() bool{
		"redis_up": h.redis.Load, "nats_up": h.link.IsConnected,
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dqbridge_" + name, Help: "1 where the connection is there.",
		}, func() float64 {
			if up() {
				return 1
			}
			return 0
		}))
	}
	return m
}

// gauge registers a figure of what only some bridges have.
func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "dqbridge_" + name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) pushed(topic string, code int, duplicate bool) {
	m.pushes.WithLabelValues(strconv.Itoa(code)).Inc()
	switch {
	case duplicate:
		m.duplicates.WithLabelValues("kept").Inc()
	case code == http.StatusOK:
		m.figures.pushed(topic)
	}
}

func (m *metrics) finish(topic string) {
	m.finished.Inc()
	m.figures.finished(topic)
}

func (m *metrics) rejected(code int) { m.rejections.WithLabelValues(strconv.Itoa(code)).Inc() }

func (m *metrics) settled(verb delay.Verb) { m.verbs.WithLabelValues(string(verb)).Inc() }

func (m *metrics) delivered(flights []*flight, now time.Time) {
	for _, f := range flights {
		m.deliveries.Inc()
		if f.attempt > 1 {
			m.redeliveries.Inc()
			continue
		}
		m.lateness.WithLabelValues(m.label(f.topic.name)).Observe(f.late.Seconds())
	}
	m.figures.delivered(flights, now)
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

// died counts a dead job. The text behind a reason is the worker's and no label.
func (m *metrics) died(reason string) {
	kind, _, _ := strings.Cut(reason, ":")
	m.dead.WithLabelValues(kind).Inc()
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

// storeCollector reads the store's counters when the figures are asked for, at most once a second.
type storeCollector struct {
	queue *delay.Queue
	now   func() time.Time

	mu     sync.Mutex
	read   time.Time
	counts delay.Counts
}

// describe gives the descriptions of the jobs by state, and of the last runs of the tickers.
func (*storeCollector) describe() (*prometheus.Desc, *prometheus.Desc) {
	return prometheus.NewDesc("dqbridge_jobs", "Stored jobs by state.", []string{"state"}, nil),
		prometheus.NewDesc("dqbridge_ticker_last_run_timestamp_seconds", "When the ticker of a bucket last did its work.",
			[]string{"bucket"}, nil)
}

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	jobs, ticked := c.describe()
	ch <- jobs
	ch <- ticked
}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs, ticked := c.describe()
	for b, p := range c.queue.Pulses() {
		if !p.Run.IsZero() {
			ch <- prometheus.MustNewConstMetric(ticked, prometheus.GaugeValue, float64(p.Run.UnixMilli())/1000, strconv.Itoa(b))
		}
	}
	if c.now().Sub(c.read) > countsFor {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a scrape has no context
		defer cancel()
		counts, err := c.queue.Counts(ctx)
		if err != nil {
			return // redis_up says so; old figures would be a lie
		}
		c.counts, c.read = counts, c.now()
	}
	for state, n := range map[delay.State]int64{
		delay.Delayed: c.counts.Delayed, delay.Ready: c.counts.Ready, delay.InFlight: c.counts.InFlight, delay.Dead: c.counts.Dead,
	} {
		ch <- prometheus.MustNewConstMetric(jobs, prometheus.GaugeValue, float64(n), string(state))
	}
}
