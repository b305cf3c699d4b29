package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// historyData is the last hour as /api/history gives it.
type historyData struct {
	Step              int `json:"step_s"`
	Until             time.Time
	In, Out, Finished []int
	P50               []*float64 `json:"late_p50_ms"`
	P99               []*float64 `json:"late_p99_ms"`
	Kept              bool
}

func sum(list []int) int {
	n := 0
	for _, one := range list {
		n += one
	}
	return n
}

func (b *replica) history(t *testing.T, topic string) historyData {
	t.Helper()
	return dataOf[historyData](t, b.http(t, "GET", "/api/history?topic="+topic, ""))
}

// TestHistory: what went through is told by minutes, of a topic and of all, as the bridge's clock goes on.
func TestHistory(t *testing.T) {
	t.Parallel()
	clock := &hostClock{}
	r := newRig(t, func(s *setup) { s.Now = clock.now })
	w := r.work(t, "a")
	for i := range 3 {
		r.push(t, fmt.Sprintf(`{"id":"a%d","topic":"a","ttr":60}`, i))
		w.next(t).finish(t)
	}
	r.push(t, `{"id":"b","topic":"b","delay":600}`)
	testenv.Eventually(t, patience, func() bool { return sum(r.main.history(t, "a").Out) == 3 }, "the deliveries are counted")
	clock.set(10 * time.Minute)
	r.push(t, `{"id":"c","topic":"a","delay":600}`)
	h := r.main.history(t, "a")
	if h.Step != 60 || len(h.In) != 60 || len(h.P50) != 60 || len(h.P99) != 60 || !h.Kept || time.Until(h.Until).Abs() > 11*time.Minute {
		t.Errorf("the last hour is %+v", h)
	}
	// The step of the clock may have passed the end of a minute.
	if sum(h.In[48:51]) != 3 || sum(h.In[58:]) != 1 || sum(h.In) != 4 || sum(h.Out[48:51]) != 3 || sum(h.Finished[48:51]) != 3 {
		t.Errorf("in %v, out %v, finished %v", h.In, h.Out, h.Finished)
	}
	told := 0
	for i := range h.P50 {
		if (h.P50[i] == nil) != (h.Out[i] == 0) || (h.P99[i] == nil) != (h.Out[i] == 0) {
			t.Errorf("minute %d has %d deliveries and the lateness %v", i, h.Out[i], h.P50[i])
		}
		if h.P50[i] != nil && *h.P50[i] <= *h.P99[i] {
			told++
		}
	}
	if told == 0 {
		t.Error("no lateness is told")
	}
	if all := r.main.history(t, ""); sum(all.In) != 5 || sum(all.Out) != 3 || !all.Kept {
		t.Errorf("of all topics: %+v", all)
	}
	clock.set(65 * time.Minute)
	if h = r.main.history(t, "a"); sum(h.In) != 1 || sum(h.In[3:7]) != 1 || sum(h.Out)+sum(h.Finished) != 0 {
		t.Errorf("over an hour later: in %v, out %v, finished %v", h.In, h.Out, h.Finished)
	}
	r.main.http(t, "GET", "/api/history?topic=a.*", "").is(t, 400, "topic")
	r.main.http(t, "GET", "/api/history?topci=a", "").is(t, 400, "topci")
	r.main.http(t, "POST", "/api/history", "").is(t, 405, "GET")
	r.finish(t, "b")
	r.finish(t, "c")
	r.emptied(t)
}

// TestHistoryNotKept: with more topics than are kept, those that are looked at are kept, up to a bound; the others say so.
func TestHistoryNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const most, jobs = 200, 300
	var list []string
	for i := range jobs {
		list = append(list, fmt.Sprintf(`{"id":"job-%d","topic":"t.%d","delay":600}`, i, i))
	}
	r.main.http(t, "POST", "/push", "["+strings.Join(list, ",")+"]", asJSON).is(t, 200, "")
	kept := 0
	for i := range jobs {
		h := r.main.history(t, fmt.Sprintf("t.%d", i))
		if h.Kept {
			kept++
			continue
		}
		if len(h.In)+len(h.Out)+len(h.Finished)+len(h.P50)+len(h.P99) > 0 {
			t.Errorf("what is not kept is told: %+v", h)
		}
	}
	if kept != most {
		t.Errorf("%d topics are kept", kept)
	}
	if all := r.main.history(t, ""); sum(all.In) != jobs {
		t.Errorf("of all topics: %v", all.In)
	}
	for i := range jobs {
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	r.emptied(t)
}

// TestDueTimes: what becomes due is counted exactly, over all buckets and topics.
func TestDueTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	type timelineData struct {
		Step           int `json:"step_s"`
		From           time.Time
		Counts         []int
		Overdue, Later int
	}
	var jobs []string
	push := func(n int, delay time.Duration) {
		for range n {
			jobs = append(jobs, fmt.Sprintf(`{"id":"job-%d","topic":"t.%d","delay":%q}`, len(jobs), len(jobs)%5, delay))
		}
	}
	// At the end of slots, so that they are in them for most of a minute.
	push(3, 30*time.Minute+59*time.Second)
	push(5, 58*time.Minute+59*time.Second)
	push(2, 5*time.Hour+59*time.Minute)
	push(4, 23*time.Hour+59*time.Minute)
	push(6, 48*time.Hour)
	r.main.http(t, "POST", "/push", "["+strings.Join(jobs, ",")+"]", asJSON).is(t, 200, "")
	for span, want := range map[string]struct {
		step, slots, later int
		counts             map[int]int
	}{
		"1m": {1, 60, 20, nil},
		"1h": {60, 60, 12, map[int]int{30: 3, 58: 5}},
		"1d": {3600, 24, 6, map[int]int{0: 8, 5: 2, 23: 4}},
	} {
		got := dataOf[timelineData](t, r.main.http(t, "GET", "/api/timeline?range="+span, ""))
		if got.Step != want.step || len(got.Counts) != want.slots || got.Later != want.later || got.Overdue != 0 ||
			time.Since(got.From).Abs() > patience {
			t.Errorf("%s: %+v", span, got)
		}
		for slot, n := range got.Counts {
			if n != want.counts[slot] {
				t.Errorf("%s: slot %d has %d jobs instead of %d", span, slot, n, want.counts[slot])
			}
		}
		if sum(got.Counts)+got.Later != len(jobs) {
			t.Errorf("%s counts %d of %d jobs", span, sum(got.Counts)+got.Later, len(jobs))
		}
	}
	for _, query := range []string{"", "?range=", "?range=2m", "?range=1m&range=1h", "?span=1m"} {
		r.main.http(t, "GET", "/api/timeline"+query, "").is(t, 400, "")
	}
	r.main.http(t, "POST", "/api/timeline?range=1m", "").is(t, 405, "GET")
	for i := range jobs {
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	r.emptied(t)
}
