package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// example is a file of examples/kubernetes.
func example(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join("examples", "kubernetes", name))
}

// matches are the first groups of all matches.
func matches(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// number is the one number that a pattern finds.
func number(t *testing.T, pattern, text string) int {
	t.Helper()
	found := matches(pattern, text)
	if len(found) != 1 {
		t.Fatalf("%s is there %d times", pattern, len(found))
	}
	n, err := strconv.Atoi(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The settings of the example, and those of the Secret that its page makes, are ones that the bridge takes, and the pod has
// the time that its stop may take.
func TestKubernetesSettings(t *testing.T) {
	for _, line := range matches(`(?m)^(DQ_.+)$`, example(t, "dqbridge.env")) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	secrets := matches(`--from-literal=(DQ_[^\s\\]+)`, read(t, "examples/README.md"))
	for _, secret := range secrets {
		name, value, _ := strings.Cut(strings.Trim(secret, `'"`), "=")
		t.Setenv(name, value)
		if !strings.Contains(example(t, "dqbridge.env"), name) || !strings.Contains(example(t, "deployment.yaml"), name) {
			t.Errorf("the files do not tell of %s", name)
		}
	}
	cfg, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	deployment := example(t, "deployment.yaml")
	if port := number(t, `containerPort: (\d+)`, deployment); cfg.HTTP.Addr != ":"+strconv.Itoa(port) {
		t.Errorf("HTTP listens on %s, the container's port is %d", cfg.HTTP.Addr, port)
	}
	const after = 5 * time.Second // calls without an answer are cut off 2 s after DQ_SHUTDOWN_TIMEOUT; HTTP has a second
	grace := time.Duration(number(t, `terminationGracePeriodSeconds: (\d+)`, deployment)) * time.Second
	if before := time.Duration(number(t, `seconds: (\d+)`, deployment)) * time.Second; grace < before+cfg.ShutdownTimeout+after {
		t.Errorf("%v of grace for %v, %v and %v", grace, before, cfg.ShutdownTimeout, after)
	}
	if len(secrets) != 3 || cfg.HTTP.Token == "" || os.Getenv("DQ_NATS_URL") == "" || os.Getenv("DQ_REDIS_URL") == "" {
		t.Errorf("the Secret has %d variables", len(secrets))
	}
}

// What the probes and the ServiceMonitor ask for is there, for them.
func TestKubernetesProbes(t *testing.T) {
	t.Parallel()
	const token = "example"
	addr := "127.0.0.1:" + testenv.FreePort(t)
	p := testenv.Start(t, []string{
		"DQ_NATS_URL=" + testenv.NATS(t).URL(), "DQ_REDIS_URL=" + testenv.SharedRedis(t).URL(), "DQ_PREFIX=" + testenv.Prefix(t),
		"DQ_HTTP_ADDR=" + addr, "DQ_HTTP_TOKEN=" + token,
	})
	get := func(path, token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	paths := matches(`path: (/\w+)`, example(t, "deployment.yaml"))
	if len(paths) != 2 {
		t.Errorf("probes of %q", paths)
	}
	for _, path := range paths {
		p.Ready(30*time.Second, func() bool { return get(path, "") == http.StatusOK }, path+" is fine")
	}
	scraped := matches(`path: (/\w+)`, example(t, "servicemonitor.yaml"))[0]
	if without, with := get(scraped, ""), get(scraped, token); without != http.StatusUnauthorized || with != http.StatusOK {
		t.Errorf("%s: %d, and %d with the token", scraped, without, with)
	}
	http.DefaultClient.CloseIdleConnections()
}
