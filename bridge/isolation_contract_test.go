package bridge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Two installations on one Redis and one NATS, one prefix beginning with the other: neither meets the other's jobs.
func TestNestedPrefixes(t *testing.T) {
	t.Parallel()
	outer := newRig(t)
	inner := newRig(t, func(s *setup) { s.Prefix = outer.Prefix + ".a"; s.nats = outer.nats })
	const jobs = 50
	works := map[*rig]*worker{outer: outer.work(t, ">"), inner: inner.work(t, ">")}
	for i := range jobs {
		for r := range works {
			r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"t","body":%q}`, i, r.Prefix))
		}
	}
	for r, w := range works {
		for _, d := range w.await(t, jobs) {
			if !strings.Contains(string(d.Data), `"body":"`+r.Prefix+`"`) {
				t.Errorf("a worker of %s gets %s", r.Prefix, d.Data)
			}
			d.finish(t)
		}
		if w.jobs() != jobs {
			t.Errorf("%d jobs of %s instead of %d", w.jobs(), r.Prefix, jobs)
		}
		r.emptied(t)
	}
}

// A key of somebody else in the place of a bucket's stops that bucket alone, and says why.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	redis := durable(t)
	r := newRig(t, func(s *setup) { s.redis = redis })
	w := r.work(t, "t")
	key := r.Prefix + ":{0}:pool"
	if err := redis.Client().Set(t.Context(), key, "not ours", 0).Err(); err != nil {
		t.Fatal(err)
	}
	stored, refusedOnes := 0, 0
	for i := range 40 {
		answer := r.ask(t, r.msg("push", fmt.Sprintf(`{"id":"job-%d","topic":"t"}`, i)))
		switch {
		case answer.Code == 200:
			stored++
		case answer.Code == 503 && strings.Contains(answer.Message, "WRONGTYPE"):
			refusedOnes++
		default:
			t.Errorf("push: %s", answer.raw)
		}
	}
	if refusedOnes == 0 || stored < 4*refusedOnes {
		t.Errorf("%d pushes are stored and %d refused: one bucket of 8 has the foreign key", stored, refusedOnes)
	}
	for _, d := range w.await(t, stored) {
		d.finish(t)
	}
	if value, err := redis.Client().Get(t.Context(), key).Result(); err != nil || value != "not ours" {
		t.Errorf("the foreign key holds %q, %v", value, err)
	}
	testenv.Eventually(t, patience, func() bool { return r.main.log.has("WRONGTYPE") }, "the log says it")
	if n := len(r.main.log.lines("WRONGTYPE")); n > 40 {
		t.Errorf("the log says it %d times", n)
	}
	if err := redis.Client().Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() bool {
		for i := range 40 {
			if r.ask(t, r.msg("push", fmt.Sprintf(`{"id":"later-%d","topic":"later","delay":600}`, i))).Code != 200 {
				return false
			}
		}
		return true
	}, "all buckets take pushes")
}
