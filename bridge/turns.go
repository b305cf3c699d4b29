package bridge

import "github.com/dqbridge/dqbridge/delay"

const (
	// turn is how many jobs a topic gets at once while others wait; alone it gets up to round.
	turn  = 256
	round = 1024
	// unheardTurn is how many a topic gets at first, until it is known whether somebody listens: a thousand new topics
	// without listeners must not fill the rounds.
	unheardTurn = 4
	// hurried is how many topics may wait in front of one that is new.
	hurried = 32
)

// queues are the topics that wait for their turn. Those of which little is ready go first, so that a job of theirs does not
// wait until all that have a backlog had a full turn; but they take no more than half of a round while others wait.
type queues struct{ short, long []*topic }

func (q *queues) add(t *topic) {
	// Where nobody is known to listen there is no hurry; where that is not known yet, only while there are few of those.
	hurry := len(t.waiters) > t.popping || t.listening == nil && len(q.short) < hurried || t.listening != nil && *t.listening
	if hurry && !t.backlog {
		q.short = append(q.short, t)
		return
	}
	q.long = append(q.long, t)
}

func (q *queues) len() int { return len(q.short) + len(q.long) }

// next takes the first topic for a round that has n jobs so far.
func (q *queues) next(n int) *topic {
	from := &q.long
	if len(q.short) > 0 && (n < round/2 || len(q.long) == 0) {
		from = &q.short
	}
	t := (*from)[0]
	if *from = (*from)[1:]; len(*from) == 0 {
		*from = nil
	}
	t.queued = false
	return t
}

// request is one round of reserving: what is wanted of whom, and the hints it began with.
type request struct {
	wants [][]delay.Want
	parts [][]part // beside wants
}

type part struct {
	topic *topic
	hint  uint64
	// n is how many jobs are for subscribers, pops how many for waiters.
	n, pops int
}

// each calls f for the topics of a round.
func (r *request) each(f func(t *topic)) {
	for _, parts := range r.parts {
		for _, p := range parts {
			f(p.topic)
		}
	}
}

// demand is how many jobs a topic could hand out now: to subscribers, up to limit, and to waiting pops.
// The caller holds mu.
func (d *dispatcher) demand(t *topic, limit int) (int, int) {
	if d.paused[t.name] {
		return 0, 0
	}
	pops := len(t.waiters) - t.popping
	subscribers := min(d.window-t.out, limit)
	switch {
	case t.silent && !t.due:
		subscribers = 0
	case t.silent:
		subscribers = min(subscribers, 1)
	case t.listening == nil:
		subscribers = min(subscribers, unheardTurn)
	}
	return max(subscribers, 0), max(min(pops, round), 0)
}

// plan takes topics in turn, notes what to reserve for them, and gives that and how many jobs it is: 0 when nothing is to
// be done. The caller holds mu.
func (d *dispatcher) plan() (request, int) {
	r, n := request{wants: make([][]delay.Want, d.buckets), parts: make([][]part, d.buckets)}, 0
	for waiting := d.turns.len(); waiting > 0 && n < round; waiting-- {
		t := d.turns.next(n)
		limit := round - n
		if d.turns.len() > 0 {
			limit = min(limit, turn)
		}
		subscribers, pops := d.demand(t, limit)
		if subscribers > 0 && t.hinted() {
			t.due = false // a probe is one; who listens has no pause
		}
		// The hints may be gone since the topic was queued: only what is really asked for counts as out.
		t.share(subscribers+pops, func(b, jobs int) {
			forPops := min(pops, jobs)
			pops -= forPops
			n += jobs
			t.out += jobs - forPops
			t.popping += forPops
			r.wants[b] = append(r.wants[b], delay.Want{Topic: t.name, N: jobs})
			r.parts[b] = append(r.parts[b], part{topic: t, hint: t.hints[b], n: jobs - forPops, pops: forPops})
		})
	}
	return r, n
}

// enqueue gives a topic its turn where it has something to do. The caller holds mu.
func (d *dispatcher) enqueue(t *topic) {
	if t.queued || d.stopped || !t.hinted() {
		return
	}
	if subscribers, pops := d.demand(t, 1); subscribers+pops == 0 {
		return
	}
	t.queued = true
	d.turns.add(t)
	d.nudge()
}
