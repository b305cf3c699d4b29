package bridge

import "github.com/prometheus/client_golang/prometheus"

// dispatchFigures tell what the dispatcher has out and what it waits for, when they are asked.
type dispatchFigures struct {
	dispatcher *dispatcher
	metrics    *metrics
}

// dispatchDescs describe what dispatchFigures tell.
type dispatchDescs struct{ out, pops, limit, full, known, silent, paused, waiting *prometheus.Desc }

func (dispatchFigures) descs() dispatchDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}
	return dispatchDescs{
		out:     desc("inflight_deliveries", "Deliveries to subscribers that are out of this replica, by topic.", "topic"),
		pops:    desc("inflight_pops", "Deliveries to pops that are out of this replica."),
		limit:   desc("window_limit", "How many deliveries to subscribers a topic may have out of this replica."),
		full:    desc("window_full_topics", "Topics that have so many deliveries out as they may."),
		known:   desc("topics", "Topics that this replica had to do with within the last minute."),
		silent:  desc("silent_topics", "Topics with ready jobs where nobody listened at the last delivery."),
		paused:  desc("paused_topics", "Topics that are paused."),
		waiting: desc("waiting_pops", "Pops that wait for a job here."),
	}
}

// Describe implements prometheus.Collector.
func (c *dispatchFigures) Describe(ch chan<- *prometheus.Desc) {
	d := c.descs()
	for _, desc := range []*prometheus.Desc{d.out, d.pops, d.limit, d.full, d.known, d.silent, d.paused, d.waiting} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *dispatchFigures) Collect(ch chan<- prometheus.Metric) {
	d := c.descs()
	tell := func(desc *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	p := c.dispatcher.census(c.metrics.labelled())
	for topic, out := range p.out {
		tell(d.out, out, topic)
	}
	tell(d.pops, p.pops)
	tell(d.limit, p.window)
	tell(d.full, p.full)
	tell(d.known, p.topics)
	tell(d.silent, p.silent)
	tell(d.paused, p.paused)
	tell(d.waiting, p.waiting)
}

// census is what a dispatcher has at one moment.
type census struct {
	// out is by topic; those that were not asked for share otherTopics.
	out                                                 map[string]int
	pops, window, full, topics, silent, paused, waiting int
}

// census counts, with the deliveries of these topics each for itself.
func (d *dispatcher) census(named []string) census {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := census{
		out: make(map[string]int, len(named)+1), window: d.window, topics: len(d.topics), paused: len(d.paused), waiting: d.waiting,
	}
	out := 0
	for _, t := range d.topics {
		out += t.out
		if t.out >= d.window {
			p.full++
		}
		if t.silent && t.hinted() {
			p.silent++
		}
	}
	// A round that is under way has places for more than it will get.
	p.pops = max(len(d.flights)-out, 0)
	for _, name := range named {
		p.out[name] = 0
		if t := d.topics[name]; t != nil {
			p.out[name] = t.out
		}
		out -= p.out[name]
	}
	p.out[otherTopics] = out
	return p
}
