package load

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// tally keeps what went in and what came out, by the number of the job that its body carries.
type tally struct {
	now func() time.Time
	// tag starts the bodies of this run alone, so that what an earlier one left over is told apart.
	tag []byte
	// due is written by the pusher before the job goes in; first and times by workers, many at once.
	due   []int64        // Unix nanoseconds, without the pointers of a time.Time for the garbage collector to follow
	first []atomic.Int64 // the same of the first delivery, 0: none yet
	times []atomic.Int32
	// delivered counts jobs, strangers what is not of this run.
	delivered, strangers atomic.Int64
	body                 []byte
}

const digits = 8

func newTally(now func() time.Time, tag string, jobs, size int) *tally {
	t := &tally{
		now: now, tag: []byte(tag + " "), due: make([]int64, jobs),
		first: make([]atomic.Int64, jobs), times: make([]atomic.Int32, jobs),
	}
	t.body = append(append([]byte(nil), t.tag...), bytes.Repeat([]byte("x"), size)...)[:size]
	return t
}

// give is the body of job i, good until the next call, and notes when it is due.
func (t *tally) give(i int, due time.Time) []byte {
	t.due[i] = due.UnixNano()
	copy(t.body[len(t.tag):], fmt.Appendf(nil, "%0*d ", digits, i))
	return t.body
}

// take notes a delivery.
func (t *tally) take(body []byte) {
	now := t.now().UnixNano()
	rest, ok := bytes.CutPrefix(body, t.tag)
	if !ok || len(rest) < digits {
		t.strangers.Add(1)
		return
	}
	i, err := strconv.Atoi(string(rest[:digits]))
	if err != nil || i >= len(t.first) {
		t.strangers.Add(1)
		return
	}
	t.times[i].Add(1)
	if t.first[i].CompareAndSwap(0, now) {
		t.delivered.Add(1)
	}
}

// check sets what should not be of the first n jobs.
func (t *tally) check(f *Figure, n int) {
	for i := range n {
		switch times := t.times[i].Load(); {
		case times == 0:
			f.Lost++
		case times > 1:
			f.Twice++
		}
		if at := t.first[i].Load(); at != 0 && at < t.due[i] {
			f.Early++
		}
	}
}

// span gives the earliest due moment of the first n jobs, and their first delivery.
func (t *tally) span(n int) (time.Time, time.Time) {
	var due, delivered int64
	for i := range n {
		if due == 0 || t.due[i] < due {
			due = t.due[i]
		}
		if at := t.first[i].Load(); at != 0 && (delivered == 0 || at < delivered) {
			delivered = at
		}
	}
	return time.Unix(0, due), time.Unix(0, delivered)
}

// lateness is of what was delivered of jobs from to n; nil where nothing was.
func (t *tally) lateness(from, n int) *Spread {
	late := make([]time.Duration, 0, n-from)
	for i := from; i < n; i++ {
		if at := t.first[i].Load(); at != 0 {
			late = append(late, time.Duration(at-t.due[i]))
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.Sort(late)
	ms := func(share float64) float64 {
		return float64(late[min(int(share*float64(len(late))), len(late)-1)].Microseconds()) / 1000
	}
	l := &Spread{Min: ms(0), P50: ms(0.5), P99: ms(0.99), Max: ms(1)}
	for i := range 101 {
		l.Curve = append(l.Curve, ms(float64(i)/100))
	}
	return l
}
