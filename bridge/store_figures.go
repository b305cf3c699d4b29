package bridge

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dqbridge/dqbridge/delay"
)

// countsFor is how long a reading of the store serves.
const countsFor = time.Second

// storeFigures reads the store when the figures are asked for, at most once a second.
type storeFigures struct {
	queue *delay.Queue
	// up says that the store is open.
	up     *atomic.Bool
	now    func() time.Time
	prefix string

	mu     sync.Mutex
	read   time.Time
	counts delay.Counts
	ages   delay.Ages
}

// storeDescs describe what storeFigures tell.
type storeDescs struct{ jobs, overdue, ready, ticked, info, queued, fill *prometheus.Desc }

func (*storeFigures) descs() storeDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}
	return storeDescs{
		jobs:    desc("jobs", "Stored jobs by state.", "state"),
		overdue: desc("oldest_overdue_seconds", "How long the oldest job is overdue that no ticker has made ready. 0: there is none."),
		ready:   desc("oldest_ready_seconds", "How long ago the oldest ready job was due that waits for its first delivery. 0: there is none."),
		ticked:  desc("ticker_last_run_timestamp_seconds", "When the ticker of a bucket last did its work.", "bucket"),
		info:    desc("store_info", "1, for the store that is used.", "store", "prefix", "buckets"),
		queued:  desc("queue_orders", "What waits in front of Redis.", "queue"),
		fill:    desc("queue_fill_ratio", "How much of its room takes what waits in front of Redis. At 1 it is refused with 503.", "queue"),
	}
}

// Describe implements prometheus.Collector.
func (c *storeFigures) Describe(ch chan<- *prometheus.Desc) {
	d := c.descs()
	for _, desc := range []*prometheus.Desc{d.jobs, d.overdue, d.ready, d.ticked, d.info, d.queued, d.fill} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *storeFigures) Collect(ch chan<- prometheus.Metric) {
	d := c.descs()
	tell := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for b, p := range c.queue.Pulses() {
		if !p.Run.IsZero() {
			tell(d.ticked, float64(p.Run.UnixMilli())/1000, strconv.Itoa(b))
		}
	}
	load := c.queue.Load()
	tell(d.queued, float64(load.Pushes), "pushes")
	tell(d.queued, float64(load.Verbs), "verbs")
	tell(d.fill, load.PushFill, "pushes")
	tell(d.fill, load.VerbFill, "verbs")
	if c.up.Load() {
		tell(d.info, 1, c.queue.ID(), c.prefix, strconv.Itoa(c.queue.Buckets()))
	}
	counts, ages, err := c.look()
	if err != nil {
		return // redis_up says so; old figures would be a lie
	}
	for state, n := range map[delay.State]int64{
		delay.Delayed: counts.Delayed, delay.Ready: counts.Ready, delay.InFlight: counts.InFlight, delay.Dead: counts.Dead,
	} {
		tell(d.jobs, float64(n), string(state))
	}
	tell(d.overdue, ages.Overdue.Seconds())
	tell(d.ready, ages.Ready.Seconds())
}

// look reads the store, where the last reading is too old.
func (c *storeFigures) look() (delay.Counts, delay.Ages, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.read) <= countsFor {
		return c.counts, c.ages, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // a scrape has no context
	defer cancel()
	counts, err := c.queue.Counts(ctx)
	if err != nil {
		return counts, delay.Ages{}, err
	}
	ages, err := c.queue.Ages(ctx)
	if err == nil {
		c.counts, c.ages, c.read = counts, ages, c.now()
	}
	return counts, ages, err
}
