package bridge

import (
	"slices"
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

// A topic that has a listener and room in its window offers that room to the tickers: a job that becomes due is then
// leased by the very script that finds it due, and published from here. That saves a job the way through its topic's
// list, and a call to Redis.

const (
	// offeredTopics is how many topics offer room: those that deliver now; each costs every promotion two arguments.
	offeredTopics = 8
	// offeredJobs is how many jobs of a topic one promotion leases.
	offeredJobs = 128
	// offeredFor is how long a topic offers room after its last delivery.
	offeredFor = 10 * time.Second
	// soon is how long before it is due a job may be leased, so that it is here when it is, and several are leased by one
	// call. Nobody can reschedule or replace it from then on.
	soon = 40 * time.Millisecond
	// soonRoom is how much room a topic must have for that: what is not due yet must not take the place of what is.
	soonRoom = 100
)

// eager adds a topic that somebody listens on to those that offer room. The caller holds mu.
func (d *dispatcher) eager(t *topic) {
	if len(d.offering) < offeredTopics && !slices.Contains(d.offering, t) {
		d.offering = append(d.offering, t)
	}
}

// offer gives the room that topics have for jobs of a bucket. It counts as taken until leased says what came of it.
func (d *dispatcher) offer(bucket int) delay.Offer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || len(d.offering) == 0 || !d.link.IsConnected() || len(d.batches) > openBatches/2 {
		return delay.Offer{}
	}
	now := d.now()
	d.offering = slices.DeleteFunc(d.offering, func(t *topic) bool { return t.silent || now.Sub(t.used) > offeredFor })
	offer := delay.Offer{Owner: d.owner}
	for _, t := range d.offering {
		room := d.window - t.out
		if room <= 0 || d.paused[t.name] || len(t.waiters) > 0 || t.hints[bucket] != 0 {
			continue
		}
		n := min(offeredJobs, (room+1)/2) // the other tickers may have some too
		t.out += n
		patient := room >= soonRoom
		if patient {
			offer.Soon = soon
		}
		offer.Topics = append(offer.Topics, delay.Want{Topic: t.name, N: n, Patient: patient})
	}
	if len(offer.Topics) > 0 {
		d.offers.Add(1)
		d.leasing++
	}
	return offer
}

// leased publishes what came of an offer, now or when it is due, and takes back the rest of it.
func (d *dispatcher) leased(offer delay.Offer, asked time.Time, p delay.Promotion) {
	defer d.offers.Done()
	b := &batch{owner: offer.Owner, leased: asked, passed: make(chan struct{})}
	var later []early
	for _, err := range p.Unreadable {
		d.log.Error().Err(err).Msg("job cannot be read")
	}
	d.mu.Lock()
	for _, w := range offer.Topics {
		t := d.topics[w.Topic]
		t.out -= w.N
		for i := range p.Leased {
			v := &p.Leased[i]
			if v.Topic != w.Topic {
				continue
			}
			f := d.fly(t, v, asked, p.Base)
			if f == nil {
				continue
			}
			t.out++
			if v.Next.IsZero() {
				b.deliveries, b.flights = append(b.deliveries, v), append(b.flights, f)
				continue
			}
			later = append(later, early{delivery: v, flight: f, owner: offer.Owner, at: p.Base.When(v.Next)})
		}
		d.enqueue(t)
	}
	d.landing()
	d.mu.Unlock()
	d.metrics.scripts.batch("promote", len(p.Leased))
	if len(later) > 0 {
		d.offers.Add(len(later))
		d.ahead.keep(later)
	}
	d.dispatch(b)
}
