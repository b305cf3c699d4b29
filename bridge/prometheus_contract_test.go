package bridge_test

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const alertsFile = "../docs/alerts.yml"

// panel is what a test needs to know of a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Panels []panel }
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

// busyBridges are two bridges that met all that the dashboard shows, one with pushes through a stream.
func busyBridges(t *testing.T) []string {
	t.Helper()
	// It begins without Redis, so that there are duties that fail.
	own := testenv.Redis(t)
	plain := newRig(t, func(s *setup) { s.idle, s.redis = true, own })
	own.Kill()
	plain.main = plain.run(t)
	plain.main.until(t, "dqbridge_errors_total", func(got float64) bool { return got > 0 })
	own.Restart()
	testenv.Eventually(t, 2*patience, func() bool { return plain.main.log.has("bridge serves") }, "the bridge serves")
	plain.busy(t)
	streamed := newStreamRig(t)
	streamed.pushTo(t, streamed.msg("push", `{"topic":"t"}`))
	streamed.main.until(t, "dqbridge_push_stream_ack_pending", func(float64) bool { return true })
	var hosts []string
	for _, b := range []*replica{plain.main, streamed.main} {
		u, err := url.Parse(b.url(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// busy has some of everything happen.
func (r *rig) busy(t *testing.T) {
	t.Helper()
	w := r.work(t, "t")
	r.push(t, `{"id":"a","topic":"t"}`)
	w.next(t).is(t, "a", 1).settle(t, "-NAK")
	w.next(t).is(t, "a", 2).finish(t)
	r.push(t, `{"id":"b","topic":"t"}`)
	w.next(t).is(t, "b", 1).settle(t, "+TERM")
	r.push(t, `{"topic":"nobody"}`)
	r.push(t, `{"topic":"t","delay":99}`)
	refused(t, r.ask(t, r.msg("push", `nonsense`)), 400)
}

// TestDashboardAndAlertsOnPrometheus: each query of the dashboard and of the alerts is one that Prometheus takes, and those of
// the dashboard have something to show. A rate needs two scrapes between which something happened.
func TestDashboardAndAlertsOnPrometheus(t *testing.T) {
	t.Parallel()
	testenv.Promtool(t, "check", "rules", alertsFile)
	p := testenv.StartPrometheus(t, alertsFile, busyBridges(t)...)
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "dqbridge", "$instance", ".*", "$topic", ".*")
	known := described(t)
	queries := 0
	for _, panel := range dashboard(t) {
		for _, target := range panel.Targets {
			queries++
			knows(t, panel.Title, target.Expr, known)
			expr := variables.Replace(target.Expr)
			// What is shown only while it happens is asked for without that.
			expr = strings.TrimSuffix(expr, " > 0")
			var err error
			testenv.Eventually(t, 2*patience, func() bool {
				var n int
				n, err = p.Query(expr)
				return err != nil || n > 0
			}, panel.Title+" shows something: "+expr)
			if err != nil {
				t.Errorf("%s: %s: %v", panel.Title, expr, err)
			}
		}
	}
	if queries < 60 {
		t.Errorf("the dashboard has %d queries", queries)
	}
	var rules []testenv.Rule
	testenv.Eventually(t, 2*patience, func() bool {
		rules = p.Rules()
		for _, rule := range rules {
			if rule.LastEvaluation.IsZero() || rule.Health == "unknown" {
				return false
			}
		}
		return len(rules) > 0
	}, "each rule was evaluated")
	for _, rule := range rules {
		knows(t, rule.Name, rule.Query, known)
		if rule.Health != "ok" || rule.LastError != "" {
			t.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
		}
	}
}

// knows checks that there are all the metrics that a query names.
func knows(t *testing.T, where, expr string, known map[string]string) {
	t.Helper()
	for _, name := range regexp.MustCompile(`\bdqbridge_\w+`).FindAllString(expr, -1) {
		_, found := known[name]
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			_, histogram := known[strings.TrimSuffix(name, suffix)]
			found = found || histogram
		}
		if !found {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// TestAlertsFire: each alert has a test of promtool where it fires and one where it does not, and its place in the runbook.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	testenv.Promtool(t, "test", "rules", "testdata/alerts_test.yml")
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(names) < 20 {
		t.Errorf("only %d alerts are there", len(names))
	}
	for _, found := range names {
		name := found[1]
		one := regexp.MustCompile(`alertname: `+name+"\n.*\n +exp_alerts:(.*)").FindAllStringSubmatch(string(tests), -1)
		if len(one) != 2 || one[0][1] != "" || one[1][1] != " []" {
			t.Errorf("%s has no test where it fires and one where it does not: %q", name, one)
		}
		if link := "runbook: docs/operations.md#" + strings.ToLower(name) + "\n"; !strings.Contains(string(rules), link) {
			t.Errorf("%s lacks %s", name, link)
		}
	}
}
