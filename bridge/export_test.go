package bridge

import "github.com/prometheus/client_golang/prometheus"

// Describe gives the descriptions of all metrics, those without a sample among them.
func (b *Bridge) Describe() []*prometheus.Desc {
	ch := make(chan *prometheus.Desc)
	go func() {
		b.metrics.registry.Describe(ch)
		close(ch)
	}()
	var all []*prometheus.Desc
	for desc := range ch {
		all = append(all, desc)
	}
	return all
}
