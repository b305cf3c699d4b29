package bridge_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// How Redis is set up is looked at, at the start and later.
func TestRedisSettings(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t, "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	r := newRig(t, func(s *setup) { s.redis = redis })
	const detail = "maxmemory-policy allkeys-lru can drop jobs"
	if lines := r.main.log.lines(detail); len(lines) != 1 || !strings.Contains(lines[0], `"level":"error"`) {
		t.Errorf("the log says of the eviction policy: %v", lines)
	}
	if code, text := r.main.get(t, "/readyz"); code != http.StatusOK || !strings.Contains(text, "error: redis's "+detail) {
		t.Errorf("/readyz answers %d %q", code, text)
	}
	const metric = `dqbridge_redis_concerns{kind="eviction"} 1`
	if _, text := r.main.get(t, "/metrics"); !strings.Contains(text, metric) {
		t.Errorf("no %s in /metrics", metric)
	}
	for _, setting := range [][2]string{{"maxmemory-policy", "noeviction"}, {"appendonly", "no"}} {
		if err := redis.Client().ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, patience, func() bool {
		_, text := r.main.get(t, "/readyz")
		return !strings.Contains(text, detail) && strings.Contains(text, "warning: redis's append-only file is off")
	}, "/readyz tells of the settings as they are now")
	if _, text := r.main.get(t, "/metrics"); strings.Contains(text, metric) {
		t.Errorf("%s is still in /metrics", metric)
	}
}

// Redis's clock makes steps, as another server's would: it is told, and everything goes on.
func TestRedisClockSteps(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := miniredis.RunT(t)
			var off atomic.Int64
			go func() { // ends with the test
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						server.SetTime(time.Now().Add(time.Duration(off.Load())))
					case <-t.Context().Done():
						return
					}
				}
			}()
			r := newRig(t, func(s *setup) { s.redisURL = "redis://" + server.Addr() })
			w := r.work(t, "t")
			r.push(t, `{"id":"out","topic":"t","ttr":3}`)
			first := w.next(t).id()
			r.push(t, `{"id":"waits","topic":"t","delay":3}`)
			r.history.redisIsAhead(max(by, 0))
			off.Store(int64(by))
			testenv.Eventually(t, patience, func() bool { return r.main.log.has("clock of redis jumps") }, "the log tells of the jump")
			if _, text := r.main.get(t, "/readyz"); !strings.Contains(text, "error: the clock of redis jumped by") {
				t.Errorf("/readyz says %q", text)
			}
			if _, text := r.main.get(t, "/metrics"); !strings.Contains(text, `dqbridge_redis_clock_jumps_total{direction="`+name+`"} 1`) {
				t.Error("no jump in /metrics")
			}
			r.push(t, `{"id":"later","topic":"t","delay":1}`)
			seen := map[string]int{}
			for range 3 {
				id := w.next(t).id()
				seen[id]++
				r.finish(t, id)
			}
			if seen["out"] != 1 || seen["waits"] != 1 || seen["later"] != 1 || first != "out" {
				t.Errorf("delivered are %v after %s", seen, first)
			}
			if n := len(r.main.log.lines("clock of redis jumps")); n != 1 {
				t.Errorf("the log tells of %d jumps", n)
			}
		})
	}
}
