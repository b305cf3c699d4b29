package load

import (
	"testing"
	"time"
)

// A tally tells what was lost, came twice, early, or is of another run.
func TestTally(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000, 0)
	now := start
	tally := newTally(func() time.Time { return now }, "run", 4, 100)
	var bodies [][]byte
	for i := range 4 {
		bodies = append(bodies, append([]byte(nil), tally.give(i, start.Add(time.Second))...))
	}
	if len(bodies[3]) != 100 {
		t.Errorf("a body of %d bytes", len(bodies[3]))
	}
	now = start.Add(999 * time.Millisecond)
	tally.take(bodies[0])
	now = start.Add(1003 * time.Millisecond)
	tally.take(bodies[1])
	tally.take(bodies[1])
	tally.take(bodies[2])
	tally.take([]byte("other 00000003 x"))

	var f Figure
	tally.check(&f, 4)
	if f.Lost != 1 || f.Twice != 1 || f.Early != 1 {
		t.Errorf("lost %d, twice %d, early %d: want 1 each", f.Lost, f.Twice, f.Early)
	}
	if n, s := tally.delivered.Load(), tally.strangers.Load(); n != 3 || s != 1 {
		t.Errorf("%d delivered, %d strangers: want 3 and 1", n, s)
	}
	if late := tally.lateness(0, 4); late.Min != -1 || late.P50 != 3 || late.Max != 3 {
		t.Errorf("lateness %+v", late)
	}
	if due, delivered := tally.span(4); !due.Equal(start.Add(time.Second)) || due.Sub(delivered) != time.Millisecond {
		t.Errorf("due at %v, delivered from %v on", due, delivered)
	}
}

func TestProcessCPU(t *testing.T) {
	t.Parallel()
	if _, err := startMeter(map[string]int{"init": 1}); err != nil {
		t.Error(err)
	}
	if _, err := startMeter(map[string]int{"nobody": 1 << 30}); err == nil {
		t.Error("no error for a process that is not there")
	}
}
