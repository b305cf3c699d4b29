package whole_test

import (
	"fmt"
	"testing"
	"time"
)

// Many jobs at once, pushed by plain publishes that nobody confirms: NATS loses none on one machine, so none is lost.
func TestBurst(t *testing.T) {
	t.Parallel()
	const jobs, within = 20_000, 30 * time.Second
	r := newRig(t, "everysec")
	p := r.serving()
	r.workers(2, r.ack)
	due := time.Now().Add(3 * time.Second).Truncate(time.Second).Add(time.Second)
	at := due.UTC().Format(time.RFC3339Nano)
	for i := range jobs {
		id := fmt.Sprintf("burst-%05d", i)
		r.history.Pushing(id, due)
		r.history.Pushed(id, time.Time{}) // where the push takes longer, the job is due when it arrives
		job := fmt.Appendf(nil, `{"id":%q,"topic":"burst","at":%q,"body":%d}`, id, at, i)
		if err := r.nc.Publish(r.prefix+".push", job); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("published %v before they are due", time.Until(due).Round(time.Millisecond))
	report := r.settled(time.Until(due) + within)
	if report.Delivered != jobs {
		t.Errorf("%d deliveries of %d jobs", report.Delivered, jobs)
	}
	r.end(p)
}
