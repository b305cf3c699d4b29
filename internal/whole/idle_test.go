package whole_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// An idle replica must not spend its time on what is due tomorrow.
func TestIdle(t *testing.T) {
	t.Parallel()
	const jobs, batch, during, most = 50_000, 1000, 3 * time.Second, 0.05
	r := newRig(t, "everysec")
	p := r.serving()
	for first := 0; first < jobs; first += batch {
		var list bytes.Buffer
		for i := first; i < first+batch; i++ {
			fmt.Fprintf(&list, `%c{"id":"tomorrow-%d","topic":"later","delay":"24h","body":"x"}`, separator(i-first), i)
		}
		list.WriteByte(']')
		msg, err := r.nc.Request(r.prefix+".push", list.Bytes(), startWithin)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(msg.Data, []byte(`{"code":200,`)) {
			t.Fatalf("push: %.200s", msg.Data)
		}
	}
	r.pause(2 * time.Second) // until nothing of that is left to do
	before := cpuTime(t, p.Pid())
	began := time.Now()
	r.pause(during)
	share := (cpuTime(t, p.Pid()) - before).Seconds() / time.Since(began).Seconds()
	t.Logf("an idle replica with %d jobs uses %.2f%% of a core (with the race detector, if it is on)", jobs, 100*share)
	if share > most {
		t.Errorf("%.2f%% of a core, should be no more than %.0f%%", 100*share, 100*most)
	}
	r.end(p)
}

// separator stands before element i of a JSON array.
func separator(i int) byte {
	if i == 0 {
		return '['
	}
	return ','
}

// cpuTime is what a process used so far, in user and system mode.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100 for all that /proc tells
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		t.Skip("this system does not tell what a process uses")
	}
	if err != nil {
		t.Fatal(err)
	}
	// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field, the state is the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * tick
}
