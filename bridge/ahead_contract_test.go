package bridge_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// pushAt pushes a job for each moment, as job-0, job-1, ….
func (r *rig) pushAt(t *testing.T, due []time.Time) {
	t.Helper()
	list := make([]string, len(due))
	for i := range due {
		list[i] = fmt.Sprintf(`{"id":"job-%d","topic":"t","at":%q}`, i, due[i].Format(time.RFC3339Nano))
	}
	if answer := r.ask(t, r.msg("push", "["+strings.Join(list, ",")+"]")); answer.Code != 200 {
		t.Fatalf("%.500s", answer.raw)
	}
}

// TestEndedJustBeforeItIsDue: a job whose end is confirmed before it is due is not delivered, also where it is leased for
// its delivery already, or just being leased.
func TestEndedJustBeforeItIsDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	r.warm(t, w)
	// A busy machine may be too late for all of some.
	for inTime, deadline := 0, time.Now().Add(2*patience); inTime < 200; {
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs were ended in time", inTime)
		}
		ended := r.endInTime(t, 300)
		r.push(t, `{"id":"last","topic":"t"}`)
		d := w.next(t)
		for ; d.id() != "last"; d = w.next(t) {
			if ended[d.id()] {
				t.Errorf("%s is delivered, which was ended before it was due", d.id())
			}
		}
		d.finish(t)
		inTime += len(ended)
	}
	r.emptied(t)
}

// endInTime pushes jobs, ends each some ms before it is due, and gives those whose end was confirmed by then. All are due
// when it returns.
func (r *rig) endInTime(t *testing.T, jobs int) map[string]bool {
	t.Helper()
	due := make([]time.Time, jobs)
	began := time.Now().Add(300 * time.Millisecond)
	for i := range jobs {
		due[i] = began.Add(time.Duration(i) * time.Millisecond)
	}
	r.pushAt(t, due)
	var ending sync.WaitGroup
	var mu sync.Mutex
	ended := make(map[string]bool)
	for i := range jobs {
		ending.Go(func() {
			id := fmt.Sprintf("job-%d", i)
			<-time.After(time.Until(due[i]) - time.Duration(i%45)*time.Millisecond)
			answer, err := r.nc.Request(r.subject("finish"), []byte(id), patience)
			if err != nil || !strings.HasPrefix(string(answer.Data), `{"code":200,`) {
				t.Errorf("finish: %+v %v", answer, err)
			} else if time.Now().Before(due[i]) {
				mu.Lock()
				ended[id] = true
				mu.Unlock()
			}
		})
	}
	ending.Wait()
	<-time.After(time.Until(due[jobs-1]) + 10*time.Millisecond)
	return ended
}

// TestLeavesWithJobsLeasedAhead: a replica that leaves delivers what it has leased when that is due; nothing has to wait
// for the end of a lease.
func TestLeavesWithJobsLeasedAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	r.warm(t, w)
	r.start(t)
	const jobs = 300
	due := make([]time.Time, jobs)
	began := time.Now().Add(500 * time.Millisecond)
	for i := range jobs {
		due[i] = began.Add(time.Duration(i) * time.Millisecond)
	}
	r.pushAt(t, due)
	testenv.Eventually(t, patience, func() bool { return w.count() > jobs/4 }, "some are delivered")
	if err := r.main.stop(t); err != nil {
		t.Error(err)
	}
	for range jobs {
		d := w.next(t)
		var i int
		if _, err := fmt.Sscanf(d.id(), "job-%d", &i); err != nil {
			t.Fatal(err)
		}
		if late := d.at.Sub(due[i]); late < 0 || late > 2*time.Second || d.attempt() != 1 {
			t.Errorf("%s comes %v after it was due", d.id(), late)
		}
		d.finish(t)
	}
	r.emptied(t)
}
