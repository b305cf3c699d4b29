package bridge

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// choices is a counter with one label of which the values are known. All are there from the start, so that the first of
// each is seen as an increase.
type choices[K comparable] struct {
	vector *prometheus.CounterVec
	known  map[K]prometheus.Counter
}

func choose[K comparable](vector *prometheus.CounterVec, values ...K) choices[K] {
	c := choices[K]{vector, make(map[K]prometheus.Counter, len(values))}
	for _, value := range values {
		c.known[value] = vector.WithLabelValues(fmt.Sprint(value))
	}
	return c
}

// of gives the counter of a value. Values that are not known share one, so that the labels stay few.
func (c choices[K]) of(value K) prometheus.Counter {
	if known, found := c.known[value]; found {
		return known
	}
	return c.vector.WithLabelValues("other")
}
