package bridge

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// firstProbe and lastProbe bound the pause between two tries to deliver to a topic without listeners.
	firstProbe = 20 * time.Millisecond
	lastProbe  = time.Second
	// probeGrid is how far the moments of probes of different topics are apart.
	probeGrid = 100 * time.Millisecond
	// spreadEvery bounds how often all replicas are told of a bucket's ready jobs that have no room here.
	spreadEvery = 20 * time.Millisecond
)

// topic is what the dispatcher knows of a topic. All fields but lateness are guarded by the dispatcher's mutex.
type topic struct {
	name string
	// hints says for each bucket that it may hold ready jobs: a number that grows with each note, 0 for none.
	// A look that found nothing takes back only the hint it began with.
	hints []uint64
	last  uint64
	// out is how many deliveries to subscribers are reserved or in flight here; the window is what it lacks of the limit.
	out int
	// waiters are the pops that wait for a job, in their order; popping is how many jobs are being reserved for them.
	waiters []*waiter
	popping int
	// looking says that Redis is being asked which buckets have ready jobs.
	looking bool
	// listening is what the last delivery to subscribers saw; nil: there was none yet.
	listening *bool
	// expiring says that the topic may have ready jobs that expire.
	expiring bool
	// queued says that the topic waits for its turn.
	queued bool
	// backlog says that more was ready than the topic got at its last turn.
	backlog bool
	// silent says that nobody listened at the last delivery; then one job at a time is tried, after pauses.
	silent bool
	pause  time.Duration
	probe  *time.Timer
	// due says that the pause is over and a probe is allowed; allowed that only its turn is waited for.
	due, allowed bool
	// used is when the topic last had work; it is forgotten a while later.
	used time.Time
	// next is the bucket that is asked first, so that all get their turn.
	next int
	// spreads says for each bucket when all replicas were last told of its ready jobs; nil: never.
	spreads []time.Time
	// lateness is where the metrics count it, nil before its first delivery.
	lateness atomic.Pointer[prometheus.Observer]
}

func (t *topic) hint(bucket int) {
	t.last++
	t.hints[bucket] = t.last
}

// spread notes that all replicas are told of a bucket's ready jobs, where that was not just so.
func (t *topic) spread(bucket int, now time.Time) bool {
	if t.spreads == nil {
		t.spreads = make([]time.Time, len(t.hints))
	}
	if now.Sub(t.spreads[bucket]) < spreadEvery {
		return false
	}
	t.spreads[bucket] = now
	return true
}

func (t *topic) hinted() bool {
	for _, h := range t.hints {
		if h != 0 {
			return true
		}
	}
	return false
}

// share divides up to n jobs over the hinted buckets.
func (t *topic) share(n int, add func(bucket, n int)) {
	hinted := 0
	for _, h := range t.hints {
		if h != 0 {
			hinted++
		}
	}
	for i := range t.hints {
		b := (t.next + i) % len(t.hints)
		if t.hints[b] == 0 || n == 0 {
			continue
		}
		part := (n + hinted - 1) / hinted
		add(b, part)
		n -= part
		hinted--
		if n == 0 {
			t.next = (b + 1) % len(t.hints)
		}
	}
}

// silence notes that nobody listens on a topic: it rests, longer each time. The caller holds mu.
func (d *dispatcher) silence(t *topic) {
	t.silent, t.listening = true, new(bool)
	t.pause = min(max(2*t.pause, firstProbe), lastProbe)
	d.rest(t)
}

// rest lets a silent topic be tried again after its pause. The caller holds mu.
func (d *dispatcher) rest(t *topic) {
	t.due = false
	wait := t.pause
	if wait > probeGrid {
		// Topics that rest for long are tried together: many cost little more than one.
		now := d.now()
		wait = now.Add(wait).Truncate(probeGrid).Sub(now)
	}
	if t.probe != nil {
		t.probe.Reset(wait)
		return
	}
	t.probe = time.AfterFunc(wait, func() { d.rested(t) })
}

// rested lets a silent topic be tried when it is its turn: topics get their probes in the order in which they ask.
func (d *dispatcher) rested(t *topic) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.allowed && t.hinted() && !d.stopped {
		t.allowed = true
		if wait := d.probes.ReserveN(d.now(), 1).Delay(); wait > 0 {
			t.probe.Reset(wait)
			return
		}
	}
	t.due, t.allowed = true, false
	d.enqueue(t)
}

// heard notes that somebody listens on a topic. The caller holds mu.
func (d *dispatcher) heard(t *topic) {
	if t.listening == nil || !*t.listening {
		t.listening = new(bool)
		*t.listening = true
	}
	if t.silent {
		t.silent, t.pause, t.due = false, 0, false
		d.enqueue(t)
	}
	d.eager(t)
}

// forget drops what is known of topics that had nothing to do for a while.
func (d *dispatcher) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for name, t := range d.topics {
		if t.out == 0 && !t.queued && len(t.waiters) == 0 && !t.hinted() && now.Sub(t.used) > time.Minute {
			if t.probe != nil {
				t.probe.Stop()
			}
			d.offering = slices.DeleteFunc(d.offering, func(o *topic) bool { return o == t })
			delete(d.topics, name)
		}
	}
}
