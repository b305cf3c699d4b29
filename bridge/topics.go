package bridge

import (
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// turn is how many jobs a topic gets at once while others wait; alone it gets up to round.
	turn  = 256
	round = 1024
	// firstProbe and lastProbe bound the pause between two tries to deliver to a topic without listeners.
	firstProbe = 20 * time.Millisecond
	lastProbe  = time.Second
)

// topic is what the dispatcher knows of a topic. All fields are guarded by the dispatcher's mutex.
type topic struct {
	name string
	// hints says for each bucket that it may hold ready jobs: a number that grows with each note, 0 for none.
	// A look that found nothing takes back only the hint it began with.
	hints []uint64
	last  uint64
	// out is how many deliveries are reserved or in flight here; the window is what it lacks of the limit.
	out int
	// queued says that the topic waits for its turn.
	queued bool
	// silent says that nobody listened at the last delivery; then one job at a time is tried, after pauses.
	silent bool
	pause  time.Duration
	probe  *time.Timer
	// due says that the pause is over.
	due bool
	// used is when the topic last had work; it is forgotten a while later.
	used time.Time
	// next is the bucket that is asked first, so that all get their turn.
	next int
}

func (t *topic) hint(bucket int) {
	t.last++
	t.hints[bucket] = t.last
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

// request is one round of reserving: what is wanted of whom, and the hints it began with.
type request struct {
	wants [][]delay.Want
	parts [][]part // beside wants
}

type part struct {
	topic *topic
	hint  uint64
	n     int
}

// plan takes topics in turn and notes what to reserve for them. It is empty when nothing is to be done.
// The caller holds mu.
func (d *dispatcher) plan() (r request, n int) {
	r = request{wants: make([][]delay.Want, d.buckets), parts: make([][]part, d.buckets)}
	for waiting := len(d.turns); waiting > 0 && n < round; waiting-- {
		t := d.turns[0]
		d.turns = d.turns[1:]
		t.queued = false
		want := min(d.window-t.out, round-n)
		if len(d.turns) > 0 {
			want = min(want, turn)
		}
		if t.silent {
			want = min(want, 1)
			if !d.probes.Allow() {
				d.rest(t)
				continue
			}
			t.due = false
		}
		if want <= 0 {
			continue
		}
		t.share(want, func(b, jobs int) {
			r.wants[b] = append(r.wants[b], delay.Want{Topic: t.name, N: jobs})
			r.parts[b] = append(r.parts[b], part{topic: t, hint: t.hints[b], n: jobs})
			t.out += jobs
			n += jobs
		})
	}
	if len(d.turns) == 0 {
		d.turns = nil
	}
	return r, n
}

// enqueue gives a topic its turn where it has something to do. The caller holds mu.
func (d *dispatcher) enqueue(t *topic) {
	if t.queued || d.stopped || t.out >= d.window || t.silent && !t.due || !t.hinted() {
		return
	}
	t.queued = true
	d.turns = append(d.turns, t)
	d.nudge()
}

// silence notes that nobody listens on a topic: it rests, longer each time. The caller holds mu.
func (d *dispatcher) silence(t *topic) {
	t.silent = true
	t.pause = min(max(2*t.pause, firstProbe), lastProbe)
	d.rest(t)
}

// rest lets a silent topic be tried again after its pause. The caller holds mu.
func (d *dispatcher) rest(t *topic) {
	t.due = false
	if t.probe != nil {
		t.probe.Reset(t.pause)
		return
	}
	t.probe = time.AfterFunc(t.pause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		t.due = true
		d.enqueue(t)
	})
}

// heard notes that somebody listens on a topic. The caller holds mu.
func (d *dispatcher) heard(t *topic) {
	if t.silent {
		t.silent, t.pause, t.due = false, 0, false
		d.enqueue(t)
	}
}

// forget drops what is known of topics that had nothing to do for a while.
func (d *dispatcher) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for name, t := range d.topics {
		if t.out == 0 && !t.queued && !t.hinted() && now.Sub(t.used) > time.Minute {
			if t.probe != nil {
				t.probe.Stop()
			}
			delete(d.topics, name)
		}
	}
}
