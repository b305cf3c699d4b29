package bridge

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func newTestDispatcher(buckets, window int) *dispatcher {
	return &dispatcher{
		buckets: buckets, window: window, now: time.Now, probes: rate.NewLimiter(rate.Inf, 1), wake: make(chan struct{}, 1),
		landed: make(chan struct{}, 1), topics: make(map[string]*topic), flights: make(map[flightKey]*flight),
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
