package bridge

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dqbridge/dqbridge/delay"
)

// expireLook is how many jobs at the head of a list are looked at for their expiry when nobody listens.
const expireLook = 1000

// expiry makes jobs dead that came too late on topics where nobody listens. It works beside the deliveries, one topic
// after the other, so that however many such topics there are they hold up nobody.
type expiry struct {
	queue   *delay.Queue
	metrics *metrics
	died    func(delay.DeadJob)
	// expects is told of topics that have jobs which expire later.
	expects func(topic string)

	// mu guards the topics that are to be looked at; wake has room for one note that there are some.
	mu     sync.Mutex
	topics map[string]bool
	wake   chan struct{}
}

// look has topics looked at soon.
func (e *expiry) look(names []string) {
	if len(names) == 0 {
		return
	}
	e.mu.Lock()
	for _, name := range names {
		e.topics[name] = true
	}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run looks at topics until ctx ends.
func (e *expiry) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
		e.mu.Lock()
		names := slices.Collect(maps.Keys(e.topics))
		clear(e.topics)
		e.mu.Unlock()
		for _, name := range names {
			if ctx.Err() != nil {
				return
			}
			e.expire(ctx, name)
		}
	}
}

func (e *expiry) expire(ctx context.Context, topic string) {
	died, later, err := e.queue.Expire(ctx, topic, expireLook)
	if err != nil {
		e.metrics.trouble("expire", err)
	}
	for _, job := range died {
		e.died(job)
	}
	if later > 0 || err != nil {
		e.expects(topic)
	}
}

// takeExpiring gives the topics of flights where nobody listens and jobs may expire, each once: until somebody expects
// such jobs again.
func (d *dispatcher) takeExpiring(flights []*flight) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, f := range flights {
		if f.topic.silent && f.topic.expiring && f.silent {
			names = append(names, f.topic.name)
			f.topic.expiring = false
		}
	}
	return names
}

// expects notes that a topic may have ready jobs that expire.
func (d *dispatcher) expects(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topic(name).expiring = true
}
