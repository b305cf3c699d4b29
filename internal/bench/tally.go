package bench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
)

type counter = atomic.Int64

const (
	numberDigits = 9
	mostJobs     = 1_000_000_000
)

// tally keeps what came, by the number of the job that its body carries. Workers write it, many at once.
type tally struct {
	now func() time.Time
	// first is when the first delivery came, in Unix nanoseconds, 0: not yet; late how late it was; times how many came.
	first, late []counter
	times       []atomic.Int32
}

func newTally(now func() time.Time, jobs int) *tally {
	return &tally{now: now, first: make([]counter, jobs), late: make([]counter, jobs), times: make([]atomic.Int32, jobs)}
}

// body appends that of job i, a JSON string.
func body(p []byte, i, size int) []byte {
	p = fmt.Appendf(p, `"%0*d`, numberDigits, i)
	p = append(p, bytes.Repeat([]byte("x"), size-least)...)
	return append(p, '"')
}

// number is the job's whose ready message this is, or -1.
func number(data []byte) int {
	_, rest, ok := bytes.Cut(data, []byte(`"body":"`))
	if !ok || len(rest) < numberDigits {
		return -1
	}
	i, err := strconv.Atoi(string(rest[:numberDigits]))
	if err != nil {
		return -1
	}
	return i
}

// take notes a delivery and says whether it is the first one of its job.
func (t *tally) take(msg *nats.Msg) bool {
	now := t.now()
	i := number(msg.Data)
	if i < 0 || i >= len(t.first) {
		return false // somebody else's: it is acked, since the topic is this run's
	}
	t.times[i].Add(1)
	due, err := time.Parse(time.RFC3339Nano, msg.Header.Get(client.HeaderDueAt))
	if err != nil || !t.first[i].CompareAndSwap(0, now.UnixNano()) {
		return false
	}
	t.late[i].Store(int64(now.Sub(due)))
	return true
}

// check sets what should not be, and how late jobs came.
func (t *tally) check(r *Result) {
	var late []int64
	for i := range t.times {
		times := t.times[i].Load()
		if times > 1 {
			r.Twice++
		}
		if times == 0 || t.first[i].Load() == 0 {
			r.Lost++
			continue
		}
		late = append(late, t.late[i].Load())
	}
	r.Delivered = len(late)
	slices.Sort(late)
	r.Early, _ = slices.BinarySearch(late, 0)
	if n := len(late); n > 0 {
		ms := func(i int) float64 { return math.Round(float64(late[i])/1000) / 1000 }
		r.Min, r.P50, r.P99, r.Max = ms(0), ms(n/2), ms(n*99/100), ms(n-1)
	}
}

// moments are those of all first deliveries, in order.
func (t *tally) moments() []time.Time {
	var list []int64
	for i := range t.first {
		if at := t.first[i].Load(); at != 0 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	moments := make([]time.Time, len(list))
	for i, at := range list {
		moments[i] = time.Unix(0, at)
	}
	return moments
}
