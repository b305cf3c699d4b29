package testenv

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/child"
)

const prometheusHint = "make prometheus, or apt-get install prometheus"

// Prometheus is a real Prometheus that scrapes bridges each second.
type Prometheus struct {
	t    testing.TB
	addr string
}

// StartPrometheus starts a Prometheus with the rules of a file. The targets, host:port, are the job dqbridge.
func StartPrometheus(tb testing.TB, rules string, targets ...string) *Prometheus {
	tb.Helper()
	path := Program(tb, "prometheus", prometheusHint)
	rules, err := filepath.Abs(rules)
	if err != nil {
		tb.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{ // JSON is YAML too
		"global":     map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name": "dqbridge", "static_configs": []any{map[string]any{"targets": targets}},
		}},
	})
	dir := tb.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	p := &Prometheus{t: tb, addr: "127.0.0.1:" + FreePort(tb)}
	cmd := exec.Command(path, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.addr, "--log.level", "warn")
	var log Output
	cmd.Stdout, cmd.Stderr = &log, &log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		tb.Fatalf("start prometheus: %v", err)
	}
	tb.Cleanup(func() {
		process.Kill()
		if tb.Failed() {
			tb.Logf("log of prometheus:\n%s", log.String())
		}
	})
	if !poll(startWithin, process.Done(), func() bool { return p.get("/-/ready", nil) == nil }) {
		tb.Fatal("prometheus does not become ready")
	}
	return p
}

// get asks for a path and decodes the answer's data into value, where it is not nil.
func (p *Prometheus) get(path string, value any) error {
	// A transport of its own, so that no idle connection outlives the test.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startWithin}
	response, err := client.Get("http://" + p.addr + path)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if value != nil {
		err = json.NewDecoder(response.Body).Decode(&answer)
	}
	switch {
	case answer.Error != "":
		return fmt.Errorf("prometheus: %s", answer.Error)
	case err != nil || value == nil && response.StatusCode == http.StatusOK:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("prometheus: status %s", response.Status)
	}
	return json.Unmarshal(answer.Data, value)
}

// Query gives how many series an expression has now.
func (p *Prometheus) Query(expr string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result), err
}

// Rule is what Prometheus says of an alert rule.
type Rule struct {
	Name, Query, Health, LastError string
	LastEvaluation                 time.Time
}

// Rules gives the alert rules.
func (p *Prometheus) Rules() []Rule {
	p.t.Helper()
	var data struct{ Groups []struct{ Rules []Rule } }
	if err := p.get("/api/v1/rules?type=alert", &data); err != nil {
		p.t.Fatal(err)
	}
	var rules []Rule
	for _, group := range data.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

// Promtool runs promtool and fails the test where it fails.
func Promtool(tb testing.TB, args ...string) {
	tb.Helper()
	Program(tb, "prometheus", prometheusHint) // both come in one package
	out, err := exec.CommandContext(tb.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		tb.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
