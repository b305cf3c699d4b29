package bridge

import (
	"strings"
	"sync"
	"time"
)

const (
	// countedTopics bounds the topics whose rates are counted: some 200 bytes each, those with a past left aside, so 2 MB, or
	// 4 MB where all names have the largest size. A topic with nothing to count for a while makes room.
	countedTopics = 10_000
	// pastTopics bounds the topics whose lateness and last hour are kept: 17 KB each, so 3.4 MB.
	pastTopics = 200
	// lookedFor is for how many minutes the past of a topic that was looked at is kept for it, whatever else comes.
	lookedFor = 10
	// roomEvery is how often room is made while there is none.
	roomEvery = time.Second
)

// figures count what goes through this replica, for the dashboard: of all topics, and of each while there are not too many.
// Nothing runs by itself: time goes on when something is counted or looked at.
type figures struct {
	now func() time.Time
	// began and epoch are one moment, as a time and as what had passed since 1970: from there on the monotonic clock counts.
	began time.Time
	epoch time.Duration

	// mu guards what follows. It is held for some tens of nanoseconds a count.
	mu     sync.Mutex
	all    series
	topics map[string]*series
	// pasts are those of topics, at most pastTopics.
	pasts []*past
	// nextRoom is when room for another topic is made at the earliest, nextPast when one with a past is looked for that
	// needs it no more.
	nextRoom, nextPast time.Time
}

func newFigures(now func() time.Time) *figures {
	f := &figures{now: now, began: now(), topics: make(map[string]*series)}
	f.epoch = time.Duration(f.began.UnixNano())
	f.all.past = &past{}
	return f
}

func (f *figures) moment(now time.Time) moment { return momentAt(f.epoch + now.Sub(f.began)) }

func (f *figures) pushed(topic string) { f.count(topic, tally{in: 1}) }

func (f *figures) finished(topic string) { f.count(topic, tally{finished: 1}) }

func (f *figures) count(topic string, t tally) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.moment(now)
	f.all.add(m, t, notTold)
	if topic == "" { // who finished it did not learn it
		return
	}
	if s := f.series(topic, m, now); s != nil {
		s.add(m, t, notTold)
	}
}

// delivered counts deliveries. How late they are tells of first attempts alone.
func (f *figures) delivered(flights []*flight, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.moment(now)
	var last *topic
	var s *series
	for _, one := range flights {
		if one.topic != last {
			last, s = one.topic, f.series(one.topic.name, m, now)
		}
		late := notTold
		if one.attempt <= 1 {
			late = max(one.late, 0)
		}
		f.all.add(m, tally{out: 1}, late)
		if s != nil {
			s.add(m, tally{out: 1}, late)
		}
	}
}

// series gives the counts of a topic, nil where there are too many topics. The caller holds mu.
func (f *figures) series(name string, m moment, now time.Time) *series {
	s := f.topics[name]
	if s != nil {
		return s
	}
	if len(f.topics) >= countedTopics && !f.makeRoom(m, now) {
		return nil
	}
	s = &series{}
	name = strings.Clone(name) // it may be a part of something large
	f.topics[name] = s
	f.keep(name, s, m, now)
	return s
}

// makeRoom drops the topics that have nothing to tell, from time to time. It reports whether there is room.
func (f *figures) makeRoom(m moment, now time.Time) bool {
	if now.Before(f.nextRoom) {
		return false
	}
	f.nextRoom = now.Add(roomEvery)
	for name, s := range f.topics {
		if s.past == nil && s.idle(m) {
			delete(f.topics, name)
		}
	}
	return len(f.topics) < countedTopics
}

// keep gives a topic a past, if there is one to be had: a new one, or one of a topic that had nothing for an hour.
func (f *figures) keep(name string, s *series, m moment, now time.Time) {
	if len(f.pasts) < pastTopics {
		p := &past{name: name}
		f.pasts = append(f.pasts, p)
		s.past = p
		return
	}
	if now.Before(f.nextPast) {
		return
	}
	f.nextPast = now.Add(roomEvery)
	for _, p := range f.pasts {
		if m.minute >= p.minutes.newest+pastMinutes {
			f.hand(p, name, s)
			return
		}
	}
}

// look notes that somebody looks at a topic: it gets a past, be it that of a topic that nobody has looked at for a while.
func (f *figures) look(name string, m moment, now time.Time) *series {
	s := f.series(name, m, now)
	if s == nil {
		return nil
	}
	if s.past == nil {
		f.keep(name, s, m, now)
	}
	if s.past == nil {
		oldest := f.pasts[0]
		for _, p := range f.pasts {
			if p.looked < oldest.looked {
				oldest = p
			}
		}
		if m.minute-oldest.looked >= lookedFor {
			f.hand(oldest, name, s)
		}
	}
	if s.past != nil {
		s.past.looked = m.minute
	}
	return s
}

// hand takes the past from one topic and gives it, empty, to another.
func (f *figures) hand(p *past, name string, to *series) {
	if from := f.topics[p.name]; from != nil {
		from.past = nil
	}
	*p = past{name: name}
	to.past = p
}

// flow is what goes through a replica now, a second.
type flow struct {
	// Known says that it is counted.
	Known    bool     `json:"known"`
	In       float64  `json:"in"`
	Out      float64  `json:"out"`
	Finished float64  `json:"finished"`
	Late     []uint32 `json:"late"`
}

// hour is what went through a replica in each minute of the last hour.
type hour struct {
	Kept     bool       `json:"kept"`
	In       []uint64   `json:"in"`
	Out      []uint64   `json:"out"`
	Finished []uint64   `json:"finished"`
	Late     [][]uint32 `json:"late"`
}

// flows gives the figures of now, of all topics and of those named.
func (f *figures) flows(names []string) (flow, []flow) {
	list := make([]flow, len(names))
	for i, name := range names {
		list[i] = f.flowOf(name)
	}
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all.flow(f.moment(now)), list
}

func (f *figures) flowOf(name string) flow {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.moment(now)
	s := f.look(name, m, now)
	if s == nil {
		return flow{}
	}
	return s.flow(m)
}

// hourOf gives the figures of the last hour, of a topic or, where it has no name, of all.
func (f *figures) hourOf(name string) hour {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.moment(now)
	if name == "" {
		return f.all.hour(m)
	}
	s := f.look(name, m, now)
	if s == nil {
		return hour{}
	}
	return s.hour(m)
}
