package bridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func newTestDispatcher(buckets, window int) *dispatcher {
	return &dispatcher{
		buckets: buckets, window: window, now: time.Now, probes: rate.NewLimiter(rate.Inf, 1), wake: make(chan struct{}, 1),
		landed: make(chan struct{}, 1), stopping: make(chan struct{}), topics: make(map[string]*topic), flights: make(map[flightKey]*flight),
	}
}

// A topic can lose its hints while it waits for its turn: then nothing is asked for, and its window stays open.
func TestPlanWithoutHintsTakesNoWindow(t *testing.T) {
	t.Parallel()
	d := newTestDispatcher(4, 10)
	d.ready(2, "t")
	clear(d.topics["t"].hints)
	if _, n := d.plan(); n != 0 || d.topics["t"].out != 0 {
		t.Fatalf("planned %d, out is %d", n, d.topics["t"].out)
	}
	d.ready(1, "t")
	if r, n := d.plan(); n != unheardTurn || len(r.wants[1]) != 1 || d.topics["t"].out != n {
		t.Fatalf("planned %d %+v, out is %d", n, r.wants, d.topics["t"].out)
	}
}

// TestReadyIsSpread: replicas hear of ready jobs where pops wait for them, and of all that have no room here, now and then;
// what one hears of it does not pass on.
func TestReadyIsSpread(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	d := newTestDispatcher(2, 3)
	d.now = func() time.Time { return now }
	d.others, d.remote = func() []string { return []string{"1.x", "2.y"} }, make(map[string]map[string]time.Time)
	var notes []string
	d.notify = func(owner string, bucket int, topic string) {
		notes = append(notes, fmt.Sprintf("%s %d %s", owner, bucket, topic))
	}
	told := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(notes, want) {
			t.Errorf("%s: told %q, should be %q", when, notes, want)
		}
		notes = nil
	}
	d.ready(0, "t")
	told("there is room")
	d.awaitedBy("2.y", []string{"t"})
	d.ready(0, "t")
	told("a pop waits elsewhere", "2.y 0 t")
	d.heardOf(0, "t")
	told("another replica told of it")
	now = now.Add(time.Hour)
	d.topics["t"].out = 3
	d.ready(0, "t")
	told("there is no room", "1.x 0 t", "2.y 0 t")
	d.ready(0, "t")
	told("they were told just now")
	d.ready(1, "t")
	told("another bucket", "1.x 1 t", "2.y 1 t")
	now = now.Add(spreadEvery)
	d.heardOf(0, "t")
	told("another replica has no room either")
	d.ready(0, "t")
	told("a while later", "1.x 0 t", "2.y 0 t")
	now = now.Add(time.Hour)
	d.topics["t"].out = 0
	d.stop()
	d.ready(0, "t")
	told("nothing is delivered any more", "1.x 0 t", "2.y 0 t")
}

func TestShareDividesOverHintedBuckets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hinted []int
		n      int
		want   map[int]int
	}{
		{nil, 5, map[int]int{}},
		{[]int{1}, 5, map[int]int{1: 5}},
		{[]int{0, 2, 3}, 7, map[int]int{0: 3, 2: 2, 3: 2}},
		{[]int{0, 1, 2, 3}, 1, map[int]int{0: 1}},
		{[]int{0, 1}, 0, map[int]int{}},
	} {
		top := &topic{hints: make([]uint64, 4)}
		for _, b := range row.hinted {
			top.hint(b)
		}
		got := map[int]int{}
		top.share(row.n, func(bucket, n int) { got[bucket] += n })
		if len(got) != len(row.want) {
			t.Fatalf("share %d over %v: %v, want %v", row.n, row.hinted, got, row.want)
		}
		for b, n := range row.want {
			if got[b] != n {
				t.Fatalf("share %d over %v: %v, want %v", row.n, row.hinted, got, row.want)
			}
		}
	}
}

func TestTopicPatterns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, topic string
		want           bool
	}{
		{"mail", "mail", true},
		{"mail", "mail.eu", false},
		{"mail.*", "mail.eu", true},
		{"mail.*", "mail", false},
		{"mail.*", "mail.eu.de", false},
		{"mail.>", "mail.eu.de", true},
		{"mail.>", "mail", false},
		{">", "mail", true},
		{"*.eu", "mail.eu", true},
		{"*.eu", "mail.us", false},
		{"*", "mail", true},
	} {
		if !validPattern(row.pattern) || matches(row.pattern, row.topic) != row.want {
			t.Errorf("%q matches %q: want %v", row.pattern, row.topic, row.want)
		}
	}
	for _, pattern := range []string{"", ".", "a..b", ">.a", "a*", "a>", "a."} {
		if validPattern(pattern) {
			t.Errorf("%q is taken for a pattern", pattern)
		}
	}
}
