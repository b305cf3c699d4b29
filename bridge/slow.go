package bridge

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// slowConsumers knows how many messages the NATS client dropped, of the subscriptions that it told were too slow.
type slowConsumers struct {
	mu sync.Mutex
	// lost is the last count of each such subscription.
	lost map[*nats.Subscription]int
}

// note adds a subscription that is too slow.
func (s *slowConsumers) note(sub *nats.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = make(map[*nats.Subscription]int)
	}
	s.lost[sub] += 0
}

// dropped gives how many messages were dropped so far. A subscription that has ended keeps its last count.
func (s *slowConsumers) dropped() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for sub, before := range s.lost {
		if n, err := sub.Dropped(); err == nil {
			before = n
			s.lost[sub] = n
		}
		sum += before
	}
	return sum
}
