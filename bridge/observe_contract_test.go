package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// logLines collects a bridge's log.
type logLines struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

func (l *logLines) has(text string) bool { return strings.Contains(l.String(), text) }

// lines gives the entries with a text.
func (l *logLines) lines(text string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// url is where a bridge serves HTTP.
func (b *replica) url(t *testing.T, path string) string {
	t.Helper()
	var entry struct{ Addr string }
	testenv.Eventually(t, patience, func() bool {
		lines := b.log.lines("HTTP is served")
		return len(lines) == 1 && json.Unmarshal([]byte(lines[0]), &entry) == nil
	}, "HTTP is served")
	return "http://" + entry.Addr + path
}

// get asks a bridge over HTTP. Headers are "Name: value"; Host is the request's host.
func (b *replica) get(t *testing.T, path string, headers ...string) (int, string) {
	t.Helper()
	answer := b.http(t, http.MethodGet, path, "", headers...)
	return answer.StatusCode, answer.text
}

// webAnswer is what came over HTTP.
type webAnswer struct {
	*http.Response
	text string
}

// http sends a request of any kind.
func (b *replica) http(t *testing.T, method, path, body string, headers ...string) webAnswer {
	t.Helper()
	answer, err := b.tryHTTP(t.Context(), t, method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (b *replica) tryHTTP(ctx context.Context, t *testing.T, method, path, body string, headers ...string) (webAnswer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, b.url(t, path), strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return webAnswer{}, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	// A transport of its own, so that no idle connection outlives the test.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 2 * patience}).Do(request)
	if err != nil {
		return webAnswer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return webAnswer{response, string(data)}, err
}

// metric sums the samples of a name that have the given labels, as in `dqbridge_errors_total` or `x{code="400"}`.
func (b *replica) metric(t *testing.T, sample string) float64 {
	t.Helper()
	_, page := b.get(t, "/metrics")
	var sum float64
	for line := range strings.Lines(page) {
		if isSample(line, sample) {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &value); err != nil {
				t.Fatalf("metric %q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}

// isSample reports whether a line of metrics is of a name and has all the labels that are given with it.
func isSample(line, sample string) bool {
	name, labels, _ := strings.Cut(strings.TrimSuffix(sample, "}"), "{")
	rest, named := strings.CutPrefix(line, name)
	if !named || rest[0] != ' ' && rest[0] != '{' {
		return false
	}
	for label := range strings.SplitSeq(labels, ",") {
		if label != "" && !strings.Contains(rest, "{"+label) && !strings.Contains(rest, ","+label) {
			return false
		}
	}
	return true
}

// counts waits until a metric has a value: the store's are read once a second, and a delivery counts when it is certain.
func (b *replica) counts(t *testing.T, sample string, want float64) {
	t.Helper()
	if got := b.until(t, sample, func(got float64) bool { return got == want }); got != want {
		t.Errorf("%s is %v instead of %v", sample, got, want)
	}
}

// hasReturned waits until so many deliveries were taken back at least: each is one that nobody listened to.
func (b *replica) hasReturned(t *testing.T, least float64) {
	t.Helper()
	if got := b.until(t, sampleReturned, func(got float64) bool { return got >= least }); got < least {
		t.Fatalf("%s is %v and does not reach %v", sampleReturned, got, least)
	}
}

const sampleReturned = "dqbridge_returned_total"

// until reads a metric until it is as it should be, or the patience is over. It does so with pauses, as a page of
// metrics is work for the bridge.
func (b *replica) until(t *testing.T, sample string, good func(got float64) bool) float64 {
	t.Helper()
	for deadline := time.Now().Add(patience); ; pause(t, 50*time.Millisecond) {
		if got := b.metric(t, sample); good(got) || time.Now().After(deadline) {
			return got
		}
	}
}

// pause lets time pass where something takes its time and there is no event to wait for.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
