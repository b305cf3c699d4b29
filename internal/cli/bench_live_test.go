package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/bench"
)

// Every workload gets clean figures from a real bridge, and leaves nothing there.
func TestBenchLive(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	l.wants("push: 300 jobs in ", "bench", "push", "--jobs", "300")
	l.wants("bytes a job\n", "bench", "memory", "--jobs", "300", "--batch", "50")
	clean := "lost 0, early 0, twice 0\n"
	l.wants(clean, "bench", "drain", "--jobs", "300", "--topics", "3", "--max-delay", "3s")
	l.wants(clean, "bench", "lateness", "--jobs", "100", "--rate", "200", "--min-delay", "100ms", "--max-delay", "1s")
	l.wants(clean, "bench", "steady", "--jobs", "500", "--batch", "10", "--outstanding", "100", "--workers", "2",
		"--min-delay", "100ms", "--max-delay", "100ms")

	var r bench.Result
	out := l.run("bench", "drain", "--jobs", "100", "--max-delay", "3s", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Workload != "drain" || r.Delivered != 100 || r.P99 <= 0 {
		t.Errorf("%v: %s", err, out)
	}
	l.refused("pushing took longer", "bench", "drain", "--jobs", "500", "--max-delay", "1ms")
	l.wants("no topics", "topics")
}

// Who sees stderr sees how far it is.
func TestBenchProgress(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	var out, errs screen
	c := l.call()
	c.terminal, c.errs = true, &errs
	if err := c.run(t.Context(), &out, "bench", "push", "--jobs", "100"); err != nil {
		t.Fatal(err)
	}
	if got := errs.String(); !strings.Contains(got, "\rpush [") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("stderr %q", got)
	}
	if got := out.String(); !strings.HasPrefix(got, "push: 100 jobs in ") {
		t.Errorf("stdout %q", got)
	}
}
