package bridge_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// described gives the labels of each metric of a bridge, with commas between them, by name.
func described(t *testing.T) map[string]string {
	t.Helper()
	link, err := bridge.Connect(bridge.LinkOptions{URL: testenv.NATS(t).URL(), Log: zerolog.Nop(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	store := delay.NewStore(testenv.SharedRedis(t).Client(), delay.StoreOptions{Prefix: testenv.Prefix(t), Buckets: 2})
	b := bridge.New(link, store, bridge.Options{Prefix: "dq", PushStream: pushStream, Tick: time.Second, Now: time.Now}, zerolog.Nop())
	found := make(map[string]string)
	for _, desc := range b.Describe() {
		m := regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
		if m == nil {
			t.Fatalf("unreadable %v", desc)
		}
		own := strings.HasPrefix(m[1], "dqbridge_")
		if !own && !strings.HasPrefix(m[1], "go_") && !strings.HasPrefix(m[1], "process_") {
			t.Errorf("metric %s has another prefix", m[1])
		}
		if help := m[2]; own && (!strings.HasSuffix(help, ".") || len(help) < 10) {
			t.Errorf("metric %s has the help %q", m[1], help)
		}
		if own {
			found[m[1]] = m[3]
		}
	}
	return found
}

// TestMetricsAreDocumented holds docs/metrics.md against what a bridge registers, both ways.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(dqbridge_\\w+)` \\| ([^|]*)\\| ([^|]+)\\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(row[2]), "`", ""), ", ", ",")
	}
	registered := described(t)
	for name, labels := range registered {
		if has, found := documented[name]; !found {
			t.Errorf("docs/metrics.md lacks %s{%s}", name, labels)
		} else if has != labels {
			t.Errorf("docs/metrics.md has %s with the labels %q, they are %q", name, has, labels)
		}
	}
	for name := range documented {
		if _, found := registered[name]; !found {
			t.Errorf("docs/metrics.md has %s, which there is not", name)
		}
	}
}

// series counts the samples of each metric by name.
func series(page string) map[string]int {
	counts := make(map[string]int)
	for line := range strings.Lines(page) {
		if name := line[:strings.IndexAny(line, "{ ")]; name != "#" {
			counts[name]++
		}
	}
	return counts
}

// TestMetricsStayFew: ten thousand topics, delivered or without anybody who listens, make no more series than the bound.
func TestMetricsStayFew(t *testing.T) {
	t.Parallel()
	const topics, silent, labelled = 9000, 1000, 200
	r := newRig(t)
	var delivered atomic.Int64
	heard := func(msg *nats.Msg) {
		delivered.Add(1)
		_ = msg.Respond(nil)
	}
	if _, err := r.nc.Subscribe(r.subject("ready.heard.*"), heard); err != nil {
		t.Fatal(err)
	}
	if err := r.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for start := 0; start < topics+silent; start += 1000 {
		jobs := make([]string, 1000)
		for i := range jobs {
			name := fmt.Sprintf("heard.%d", start+i)
			if start >= topics {
				name = fmt.Sprintf("silent.%d", start+i)
			}
			jobs[i] = fmt.Sprintf(`{"topic":%q}`, name)
		}
		if answer := r.ask(t, r.msg("push", "["+strings.Join(jobs, ",")+"]")); answer.Code != 200 {
			t.Fatalf("push: %d %s", answer.Code, answer.Message)
		}
	}
	testenv.Eventually(t, 4*patience, func() bool { return delivered.Load() >= topics }, "all that have a listener are delivered")
	r.main.counts(t, "dqbridge_lateness_seconds_count", topics)
	_, page := r.main.get(t, "/metrics")
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "dqbridge_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	counts := series(page)
	for _, name := range []string{"dqbridge_lateness_seconds_count", "dqbridge_inflight_deliveries"} {
		if counts[name] != labelled+1 {
			t.Errorf("%s has %d series, should have %d and one for the rest", name, counts[name], labelled)
		}
		delete(counts, name)
	}
	delete(counts, "dqbridge_lateness_seconds_sum")
	delete(counts, "dqbridge_lateness_seconds_bucket")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if strings.HasPrefix(name, "dqbridge_") && counts[name] > 150 {
			t.Errorf("%s has %d series", name, counts[name])
		}
	}
	if n := r.main.metric(t, `dqbridge_lateness_seconds_count{topic="_other"}`); n != topics-labelled {
		t.Errorf("%v first deliveries share a label, should be %d", n, topics-labelled)
	}
	if n := r.main.metric(t, "dqbridge_topics"); n < topics {
		t.Errorf("%v topics are known", n)
	}
}

// TestMetricsOfReasons: each reason is counted where it is known.
func TestMetricsOfReasons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	r.push(t, `{"id":"a","topic":"t","ttr":1}`)
	w.next(t).is(t, "a", 1) // its TTR runs out
	w.next(t).is(t, "a", 2).settle(t, "-NAK")
	w.next(t).is(t, "a", 3).finish(t)
	r.push(t, `{"id":"b","topic":"nobody","delay":0}`)
	r.main.hasReturned(t, 1)
	r.push(t, `{"id":"c","topic":"t","delay":99}`)
	r.push(t, `{"id":"c","topic":"t","delay":98}`)
	r.push(t, `{"id":"c","topic":"t","delay":97,"on_duplicate":"replace"}`)
	for payload, code := range map[string]int{
		`nonsense`: 400, `{"topic":"a b"}`: 400, `{"topic":"t","delay":"9999999h"}`: 400, `{"topic":"other","id":"c"}`: 409,
	} {
		refused(t, r.ask(t, r.msg("push", payload)), code)
	}
	refused(t, r.ask(t, r.msg("touch", `none`)), 404)
	refused(t, r.ask(t, r.msg("touch", `c`)), 409)
	r.none(t, "empty", "", "no job at present")
	must[map[string]any](t, r, "pause", `{"topic":"halted"}`)
	for sample, want := range map[string]float64{
		`dqbridge_redeliveries_total{reason="ttr"}`: 1, `dqbridge_redeliveries_total{reason="released"}`: 1,
		`dqbridge_redeliveries_total{reason="returned"}`: 0, `dqbridge_ttrs_run_out_total`: 1, `dqbridge_leases_run_out_total`: 0,
		`dqbridge_duplicates_total{outcome="kept"}`: 2, `dqbridge_duplicates_total{outcome="replaced"}`: 1,
		`dqbridge_rejections_total{reason="malformed"}`: 1, `dqbridge_rejections_total{reason="value",code="400"}`: 2,
		`dqbridge_rejections_total{reason="other_topic"}`: 1, `dqbridge_rejections_total{reason="not_found"}`: 1,
		`dqbridge_rejections_total{reason="state"}`: 1, `dqbridge_rejections_total{reason="no_job"}`: 1,
		`dqbridge_rejections_total{reason="other"}`: 0, `dqbridge_returned_total{reason="connection"}`: 0,
		`dqbridge_silent_topics`: 1, `dqbridge_paused_topics`: 1, `dqbridge_inflight_deliveries{topic="t"}`: 0, `dqbridge_window_limit`: 1000,
		`dqbridge_window_full_topics`: 0, `dqbridge_ready`: 1, `dqbridge_replicas`: 1, `dqbridge_build_info{version="v1.2.3"}`: 1,
		`dqbridge_store_info{buckets="8"}`: 1, `dqbridge_oldest_overdue_seconds`: 0, `dqbridge_queue_fill_ratio`: 0,
	} {
		r.main.counts(t, sample, want)
	}
	for _, sample := range []string{
		`dqbridge_returned_total{reason="nobody"}`, `dqbridge_oldest_ready_seconds`, `dqbridge_script_seconds_count{script="push"}`,
		`dqbridge_batch_jobs_sum{script="reserve"}`, `dqbridge_batch_jobs_sum{script="confirm"}`, `dqbridge_script_seconds_count{script="other"}`,
		`dqbridge_redis_memory_used_bytes`, `dqbridge_redis_connections`, `dqbridge_script_seconds_count{script="promote"}`,
	} {
		if got := r.main.until(t, sample, func(got float64) bool { return got > 0 }); got <= 0 {
			t.Errorf("%s is %v", sample, got)
		}
	}
}

// TestMetricsOfAFullWindow: what is out of a topic, and that no more may be.
func TestMetricsOfAFullWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.MaxInflight = 2 })
	w := r.work(t, "t")
	for _, id := range []string{"a", "b", "c"} {
		r.push(t, `{"topic":"t","id":"`+id+`"}`)
	}
	first := w.next(t)
	w.next(t)
	r.main.counts(t, `dqbridge_inflight_deliveries{topic="t"}`, 2)
	r.main.counts(t, "dqbridge_window_full_topics", 1)
	first.finish(t)
	w.next(t).finish(t)
	r.main.counts(t, `dqbridge_inflight_deliveries{topic="t"}`, 1)
	r.main.counts(t, "dqbridge_window_full_topics", 0)
}
