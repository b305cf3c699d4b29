package bridge_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestEveryRequestIsAnswered holds for answers, too, that are larger than the server takes in one message.
func TestEveryRequestIsAnswered(t *testing.T) {
	t.Parallel()
	small := func(o *server.Options) { o.MaxPayload = 64 << 10 }
	r := newRig(t, func(s *setup) { s.natsOptions = []testenv.NATSOption{small} })
	jobs := `[{"topic":"t"}` + strings.Repeat(`,{"topic":"t"}`, 999) + `]`
	msg := r.msg("push", jobs)
	answer, err := r.nc.RequestMsg(msg, 5*time.Second)
	if err != nil {
		t.Fatalf("a push of 1,000 jobs, %d bytes, is not answered: %v", len(jobs), err)
	}
	if !bytes.HasPrefix(answer.Data, []byte(`{"code":`)) {
		t.Errorf("answered %.100s", answer.Data)
	}
}

// TestAcceptedFitsDelivery: what is accepted can be delivered, however little the server takes in one message.
func TestAcceptedFitsDelivery(t *testing.T) {
	t.Parallel()
	const limit = 16 << 10
	small := func(o *server.Options) { o.MaxPayload = limit }
	r := newRig(t, func(s *setup) { s.natsOptions = []testenv.NATSOption{small} })
	long := strings.Repeat("é", 128) // the longest id
	for name, row := range map[string]struct {
		topic, id string // the id in JSON
		headers   []string
	}{
		"JSON":         {"json", `"a"`, nil},
		"long id":      {"long", `"` + long + `"`, nil},
		"id of quotes": {"quotes", `"` + strings.Repeat(`\"`, 256) + `"`, nil},
		"long topic":   {strings.Repeat("é", 100), `"b"`, nil},
		"headers":      {"headers", `"c"`, headerNames(60)},
		"raw":          {"raw", "", []string{"Dq-Topic: raw"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := r.work(t, row.topic)
			fits, most := 0, limit // the largest body that is taken lies between
			for most-fits > 1 {
				size := (fits + most) / 2
				payload := strings.Repeat("x", size)
				if row.id != "" {
					payload = `{"id":` + row.id + `,"topic":"` + row.topic + `","body":"` + payload + `"}`
				}
				if r.taken(t, w, r.msg("push", payload, row.headers...), limit) {
					fits = size
				} else {
					most = size
				}
			}
			if fits < limit/4 {
				t.Errorf("bodies of more than %d bytes are refused by a server that takes %d", fits, limit)
			}
		})
	}
	t.Cleanup(func() { r.emptied(t) })
}

// taken pushes a job and reports whether it is accepted; one that is must be delivered.
func (r *rig) taken(t *testing.T, w *worker, msg *nats.Msg, limit int) bool {
	t.Helper()
	if len(msg.Data)+headerSize(msg.Header) > limit {
		return false // NATS itself takes no such message
	}
	answer := r.ask(t, msg)
	if answer.Code == 413 {
		return false
	}
	var p pushed
	if err := json.Unmarshal(answer.Data, &p); err != nil || answer.Code != 200 || p.Duplicate {
		t.Fatalf("a push of %d bytes: %s (%v)", len(msg.Data), answer.raw, err)
	}
	w.next(t).is(t, p.ID, 1).finish(t)
	return true
}

func headerSize(h nats.Header) int {
	if len(h) == 0 {
		return 0
	}
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	return size
}

// TestLargestBody: the largest body of the default limits goes through, byte for byte.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "large")
	body := `"` + strings.Repeat("x", r.MaxBody-2) + `"`
	r.push(t, `{"id":"json","topic":"large","body":`+body+`}`)
	d := w.next(t).is(t, "json", 1)
	if !bytes.Contains(d.Data, []byte(`,"body":`+body+`,`)) {
		t.Errorf("a body of %d bytes came in a payload of %d", len(body), len(d.Data))
	}
	d.finish(t)
	raw := strings.Repeat("\x00", r.MaxBody)
	r.push(t, raw, "Dq-Topic: large", "Dq-Id: raw")
	d = w.next(t).is(t, "raw", 1)
	if string(d.Data) != raw {
		t.Errorf("a body of %d bytes came as %d", len(raw), len(d.Data))
	}
	d.finish(t)
	r.emptied(t)
}
