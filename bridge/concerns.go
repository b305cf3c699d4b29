package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// concernsEvery is how often Redis's settings are looked at: they can be changed while it runs, and a failover
	// brings another server.
	concernsEvery = 10 * time.Second
	// jumpTold is how long a jump of Redis's clock is told, jumpSpan within which all buckets meet the same one.
	jumpTold = time.Minute
	jumpSpan = 5 * time.Second
	// aheadTold is from where on it is told that time runs ahead of Redis's clock.
	aheadTold = time.Second
)

// concerns are what endangers jobs or their times although the replica does its work: how Redis is set up, and jumps of
// its clock. They are in the log once, in the metrics, and in the text of /readyz.
type concerns struct {
	queue *delay.Queue
	now   func() time.Time
	log   zerolog.Logger
	kinds *prometheus.GaugeVec
	// used and most are the memory of the fullest server.
	used, most prometheus.Gauge
	jumps      *prometheus.CounterVec

	mu    sync.Mutex
	redis []delay.Concern
	// jump is the last jump of Redis's clock, and jumped when it was seen; zero: never.
	jump   time.Duration
	jumped time.Time
}

func newConcerns(queue *delay.Queue, now func() time.Time, log zerolog.Logger) *concerns {
	memory := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: metricPrefix + "redis_memory_" + name, Help: help})
	}
	c := &concerns{
		queue: queue, now: now, log: log,
		kinds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: metricPrefix + "redis_concerns", Help: "1 for each thing about Redis that endangers jobs, by kind.",
		}, []string{"kind"}),
		used: memory("used_bytes", "Memory that Redis uses, of a Cluster the server that is nearest to its limit."),
		most: memory("max_bytes", "Memory that this server may use; 0: there is no limit."),
		jumps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "redis_clock_jumps_total", Help: "Jumps of Redis's clock against the replica's own, by direction.",
		}, []string{"direction"}),
	}
	for _, direction := range []string{"forward", "back"} {
		c.jumps.WithLabelValues(direction)
	}
	return c
}

// collectors are the figures that concerns tell.
func (c *concerns) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.kinds, c.jumps, c.used, c.most, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + "redis_clock_ahead_seconds",
		Help: "How far the store's time is ahead of Redis's clock, which went back.",
	}, func() float64 { return c.ahead().Seconds() })}
}

// run looks at Redis's settings from time to time, until ctx is over.
func (c *concerns) run(ctx context.Context) {
	each(ctx, concernsEvery, func() {
		if err := c.look(ctx); errors.Is(err, delay.ErrOldServer) { // all else is told by health
			c.log.Error().Err(err).Msg("redis is not fit")
		}
	})
}

// look asks Redis, and says in the log what is new.
func (c *concerns) look(ctx context.Context) error {
	found, memory, err := c.queue.Concerns(ctx)
	if err != nil {
		return err
	}
	c.used.Set(float64(memory.Used))
	c.most.Set(float64(memory.Max))
	c.mu.Lock()
	before := c.redis
	c.redis = found
	c.mu.Unlock()
	c.kinds.Reset()
	for _, one := range found {
		c.kinds.WithLabelValues(one.Kind).Set(1)
		if slices.Contains(before, one) {
			continue
		}
		level := zerolog.WarnLevel
		if one.Grave {
			level = zerolog.ErrorLevel
		}
		c.log.WithLevel(level).Str("kind", one.Kind).Str("detail", one.Text).Msg("redis endangers jobs")
	}
	return nil
}

// noteJump notes a jump of Redis's clock, which each bucket reports.
func (c *concerns) noteJump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.jumped.IsZero() && now.Sub(c.jumped) < jumpSpan && by < 0 == (c.jump < 0) {
		return
	}
	c.jump, c.jumped = by, now
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	c.jumps.WithLabelValues(direction).Inc()
	c.log.Error().Dur("by", by).Str("direction", direction).Msg("clock of redis jumps")
}

// ahead is how far the store's time is ahead of Redis's clock.
func (c *concerns) ahead() time.Duration {
	most := time.Duration(0)
	for _, pulse := range c.queue.Pulses() {
		most = max(most, pulse.Ahead)
	}
	return most
}

// lines tells what there is now, a line each.
func (c *concerns) lines() []string {
	var lines []string
	c.mu.Lock()
	for _, one := range c.redis {
		level := "warning"
		if one.Grave {
			level = "error"
		}
		lines = append(lines, level+": "+one.Text)
	}
	if !c.jumped.IsZero() && c.now().Sub(c.jumped) < jumpTold {
		lines = append(lines, fmt.Sprintf("error: the clock of redis jumped by %v at %s", c.jump.Round(time.Millisecond),
			formatTime(c.jumped)))
	}
	c.mu.Unlock()
	if ahead := c.ahead(); ahead > aheadTold {
		lines = append(lines, fmt.Sprintf("error: the clock of redis went back: time runs on %v ahead of it, a 64th slower until they meet",
			ahead.Round(time.Second)))
	}
	return lines
}
