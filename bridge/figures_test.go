package bridge

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// figuresClock is a clock that the test moves; it begins with a minute.
type figuresClock struct{ at time.Time }

func (c *figuresClock) now() time.Time { return c.at }

func (c *figuresClock) pass(d time.Duration) { c.at = c.at.Add(d) }

func newTestFigures() (*figures, *figuresClock) {
	clock := &figuresClock{at: time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)}
	return newFigures(clock.now), clock
}

func (f *figures) deliverOne(name string, attempt int, late time.Duration) {
	f.delivered([]*flight{{topic: &topic{name: name}, attempt: attempt, late: late}}, f.now())
}

// What is shown as now is of the last ten seconds, and is gone behind them.
func TestFiguresNow(t *testing.T) {
	t.Parallel()
	f, clock := newTestFigures()
	for range 9 {
		for range 10 {
			f.pushed("a")
			f.deliverOne("a", 1, 3*time.Millisecond)
		}
		f.deliverOne("a", 2, time.Hour) // how late a redelivery is says nothing
		f.finished("b")
		f.finished("")
		clock.pass(time.Second)
	}
	all, topics := f.flows([]string{"a", "b", "c"})
	for what, pair := range map[string][2]float64{
		"in": {all.In, 10}, "out": {all.Out, 11}, "finished": {all.Finished, 2},
		"in of a": {topics[0].In, 10}, "out of a": {topics[0].Out, 11}, "finished of a": {topics[0].Finished, 0},
		"finished of b": {topics[1].Finished, 1}, "in of c": {topics[2].In, 0},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v instead of %v a second", what, pair[0], pair[1])
		}
	}
	if !topics[2].Known {
		t.Error("of a topic that had nothing it is not known that it had nothing")
	}
	sum := mergeFlows([]flow{topics[0]})
	if p99 := *sum.late.percentile(0.99); p99 < 2 || p99 > 4 {
		t.Errorf("lateness is %v ms instead of 3", p99)
	}
	clock.pass(10 * time.Second)
	if all, topics = f.flows([]string{"a"}); all.In+all.Out+all.Finished+topics[0].In != 0 || len(all.Late)+len(topics[0].Late) > 0 {
		t.Errorf("ten seconds later there is %+v, %+v", all, topics)
	}
}

// The last hour is told minute by minute, the running one last, and what is older is gone.
func TestFiguresHour(t *testing.T) {
	t.Parallel()
	f, clock := newTestFigures()
	for minute := range 90 {
		for range minute {
			f.pushed("a")
		}
		if minute%2 == 0 {
			f.deliverOne("a", 1, time.Duration(minute)*time.Millisecond)
			f.finished("a")
		}
		clock.pass(time.Minute)
	}
	clock.pass(-time.Second)
	for _, name := range []string{"a", ""} {
		h := f.hourOf(name)
		if !h.Kept || len(h.In) != pastMinutes || len(h.Late) != pastMinutes {
			t.Fatalf("%q: %+v", name, h)
		}
		for i := range pastMinutes {
			minute := i + 30
			delivered := uint64(1 - minute%2)
			if h.In[i] != uint64(minute) || h.Out[i] != delivered || h.Finished[i] != delivered || len(h.Late[i]) != 2*int(delivered) {
				t.Errorf("%q, minute %d: in %d, out %d, finished %d, late %v", name, minute, h.In[i], h.Out[i], h.Finished[i], h.Late[i])
			}
		}
	}
	clock.pass(30 * time.Minute)
	if h := f.hourOf("a"); h.In[29] != 89 || slices.Max(h.In[30:]) != 0 {
		t.Errorf("half an hour later: %v", h.In)
	}
	clock.pass(time.Hour)
	if h := f.hourOf("a"); slices.Max(h.In) != 0 {
		t.Errorf("an hour later: %v", h.In)
	}
}

// A clock that is set back makes no hour of what was counted before, and counting goes on.
func TestFiguresClockBack(t *testing.T) {
	t.Parallel()
	f, clock := newTestFigures()
	f.pushed("a")
	clock.pass(-100 * time.Millisecond)
	f.pushed("a")
	if h := f.hourOf("a"); h.In[pastMinutes-1] != 2 {
		t.Errorf("a small step back: %v", h.In)
	}
	clock.pass(-10 * time.Hour)
	f.pushed("a")
	if h := f.hourOf("a"); h.In[pastMinutes-1] != 1 || slices.Max(h.In[:pastMinutes-1]) != 0 {
		t.Errorf("a large step back: %v", h.In)
	}
}

// With 100,000 topics the memory is bounded, and those that are looked at have their lateness and their last hour.
//
// It is not parallel, since it measures the memory of the process.
func TestFiguresAreBounded(t *testing.T) {
	const topics, bound = 100_000, 10 << 20
	f, clock := newTestFigures()
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("a.topic.with.a.name.of.some.length.%d", i)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for round := range 3 {
		for _, name := range names {
			f.pushed(name)
			f.deliverOne(name, 1, time.Millisecond)
		}
		clock.pass(time.Duration(round) * time.Minute)
	}
	if grown := int64(heap()) - int64(before); grown > bound {
		t.Errorf("%d topics take %d bytes", topics, grown)
	}
	if len(f.topics) > countedTopics || len(f.pasts) > pastTopics {
		t.Errorf("%d topics are counted, %d have a past", len(f.topics), len(f.pasts))
	}
	if total := f.hourOf(""); slices.Max(total.In) != 2*topics { // two rounds in one minute
		t.Errorf("pushes by minute: %v", total.In)
	}
	last := names[topics-1]
	if f.hourOf(last); !f.hourOf(last).Kept {
		t.Error("a topic that is looked at has no past")
	}
	f.pushed(last)
	if h := f.hourOf(last); h.In[pastMinutes-1] != 1 {
		t.Errorf("a topic that is looked at: %v", h.In)
	}
	for _, name := range names[:3*pastTopics] {
		f.hourOf(name)
	}
	if !f.hourOf(last).Kept {
		t.Error("a topic that was looked at has lost its past to others")
	}
	runtime.KeepAlive(names)
}

// Counting allocates nothing.
func TestFiguresAllocateNothing(t *testing.T) {
	f := newFigures(time.Now)
	flights := []*flight{{topic: &topic{name: "a"}, attempt: 1}, {topic: &topic{name: "b"}, attempt: 2}}
	count := func() {
		f.pushed("a")
		f.delivered(flights, f.now())
		f.finished("b")
	}
	count()
	if n := testing.AllocsPerRun(1000, count); n > 0 {
		t.Errorf("counting a job allocates %v times", n)
	}
}

func BenchmarkFigures(b *testing.B) {
	f := newFigures(time.Now)
	flights := []*flight{{topic: &topic{name: "mail"}, attempt: 1, late: time.Millisecond}}
	for b.Loop() {
		f.pushed("mail")
		f.delivered(flights, f.now())
		f.finished("mail")
	}
}
