package bridge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// liveEvent is an event of the stream, as far as tests look at it.
type liveEvent struct {
	At        time.Time
	Version   string
	Replica   string
	MayChange bool `json:"may_change"`
	Stats     *statsData
	Redis     *struct {
		Persistence string
		SaveOK      bool       `json:"last_save_ok"`
		SavedAt     *time.Time `json:"last_save_at"`
		WriteOK     bool       `json:"aof_last_write_ok"`
		UsedMemory  int64      `json:"used_memory"`
		Policy      string     `json:"maxmemory_policy"`
		Concerns    []string
	}
	Health struct {
		Ready bool
		Lines []string
	}
	Figures struct {
		Replicas, Answered int
		flowing
		Finished float64 `json:"finished_per_s"`
	}
	Topics []struct {
		topicLine
		flowing
	}
	Cursor *string
	Error  string
}

type flowing struct {
	In  *float64 `json:"in_per_s"`
	Out *float64 `json:"out_per_s"`
	P50 *float64 `json:"late_p50_ms"`
	P99 *float64 `json:"late_p99_ms"`
}

// stream is an open stream.
type stream struct {
	t      *testing.T
	body   *bufio.Reader
	cancel context.CancelFunc
	raw    string // the last event
}

// live opens a stream. Its connection ends with the test.
func (b *replica) live(t *testing.T, query string, headers ...string) *stream {
	t.Helper()
	s, status := b.tryLive(t, query, headers...)
	if status != http.StatusOK {
		t.Fatalf("the stream is %d", status)
	}
	return s
}

func (b *replica) tryLive(t *testing.T, query string, headers ...string) (*stream, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url(t, "/api/live"+query), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = response.Body.Close()
	})
	if kind := response.Header.Get("Content-Type"); response.StatusCode == http.StatusOK && kind != "text/event-stream" {
		t.Errorf("Content-Type is %q", kind)
	}
	return &stream{t: t, body: bufio.NewReader(response.Body), cancel: cancel}, response.StatusCode
}

// next waits for the next event.
func (s *stream) next() liveEvent {
	s.t.Helper()
	line, err := s.body.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the stream ends: %v", err)
	}
	end, err := s.body.ReadString('\n')
	data, found := strings.CutPrefix(line, "data: ")
	if err != nil || end != "\n" || !found {
		s.t.Fatalf("no event is %q %q %v", line, end, err)
	}
	s.raw = data
	var e liveEvent
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		s.t.Fatalf("event %s: %v", data, err)
	}
	return e
}

// until waits for an event that is as it should be.
func (s *stream) until(what string, good func(e liveEvent) bool) liveEvent {
	s.t.Helper()
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); {
		if e := s.next(); good(e) {
			return e
		}
	}
	s.t.Fatalf("in no event %s: %s", what, s.raw)
	return liveEvent{}
}

// ended waits for the end of the stream.
func (s *stream) ended() {
	s.t.Helper()
	for {
		if _, err := s.body.ReadString('\n'); err != nil {
			return
		}
	}
}
