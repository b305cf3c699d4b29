package bridge_test

import (
	"fmt"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestVariants takes jobs through a life under settings that are not the defaults.
func TestVariants(t *testing.T) {
	t.Parallel()
	cluster, sentinel := testenv.NewRedisCluster(t, 3), testenv.NewRedisSentinel(t, 1)
	for name, option := range map[string]func(s *setup){
		"prefix of tokens":   func(s *setup) { s.Prefix += ".a-b.c_d.e" },
		"one bucket":         func(s *setup) { s.buckets = 1 },
		"many buckets":       func(s *setup) { s.buckets = 100 },
		"no release version": func(s *setup) { s.Version = "(devel)" },
		"unknown version":    func(s *setup) { s.Version = "unknown" },
		"pseudo version":     func(s *setup) { s.Version = "v0.0.0-20261129162205-e6782291ee6e+dirty" },
		"tag and commits":    func(s *setup) { s.Version = "v1.2.3-14-ge678229-dirty" },
		"window of one":      func(s *setup) { s.MaxInflight = 1 },
		"a cluster":          func(s *setup) { s.redisURL = cluster.URL() },
		"a sentinel":         func(s *setup) { s.redisURL = sentinel.URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, option)
			w := r.work(t, "life.>")
			const jobs = 30
			for i := range jobs {
				r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"life.%d","delay":%d,"body":[%d]}`, i, i%3, i%2, i))
			}
			released := map[string]bool{}
			for range 2 * jobs {
				d := w.next(t)
				if !released[d.id()] {
					released[d.id()] = true
					d.is(t, d.id(), 1).settle(t, "-NAK")
					continue
				}
				d.is(t, d.id(), 2).finish(t)
			}
			testenv.Eventually(t, patience, func() bool {
				stats := must[map[string]any](t, r, "stats", "")
				return stats["ready"] == 0. && stats["inflight"] == 0.
			}, "no job is left")
			r.emptied(t)
		})
	}
}
