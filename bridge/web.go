package bridge

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// webEnvelope is how much a push may have beside a body of the largest size.
	webEnvelope = 64 << 10
	// maxWebRequests bounds the pushes and finishes that are in hand, and with them the bodies in memory; one more
	// waits for its turn so long.
	maxWebRequests = 64
	webTurn        = 2 * time.Second
	// maxWebPops bounds the pops that wait.
	maxWebPops = 1000
	// popMargin is how long beyond its wait a pop may take: what was to be handed to it may have been taken back.
	popMargin = popGrace + time.Second
)

// web serves the queue over HTTP: POST /push, GET /pop and /finish, with the envelopes that NATS clients get.
// The requests go the way of theirs.
type web struct {
	intake     *intake
	acks       *acks
	dispatcher *dispatcher
	health     *health
	// turns and pops have an entry for each request in hand.
	turns, pops chan struct{}
}

func newWeb(b *Bridge) *web {
	return &web{
		intake: b.intake, acks: b.acks, dispatcher: b.dispatcher, health: b.health,
		turns: make(chan struct{}, maxWebRequests), pops: make(chan struct{}, maxWebPops),
	}
}

func (s *web) register(mux *http.ServeMux) {
	mux.HandleFunc("/push", methods(s.serving(s.push), http.MethodPost))
	mux.HandleFunc("/pop", methods(s.serving(s.pop), http.MethodGet))
	mux.HandleFunc("/finish", methods(s.serving(s.finish), http.MethodPost, http.MethodGet))
}

// webHandler gives the answer to a request; headers of it go into w.
type webHandler func(w http.ResponseWriter, r *http.Request) envelope

func (s *web) serving(next webHandler) http.HandlerFunc { return whileServing(s.health, next) }

// whileServing answers 503 while the bridge does not serve.
func whileServing(h *health, next webHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := errLeaving
		if h.started.Load() {
			e = next(w, r)
		}
		writeEnvelope(w, e)
	}
}

// readBody reads the payload of a request.
func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, *fault) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return nil, &fault{http.StatusRequestEntityTooLarge, "payload is too large, allowed are " + strconv.Itoa(limit) + " bytes", reasonTooLarge}
	}
	if err != nil {
		return nil, badShape("payload", "ends too early")
	}
	return data, nil
}

// patient takes off the limit on reading from a request that may wait long: the server looks meanwhile whether the client
// is still there. It gives the answer where that cannot be done.
func patient(w http.ResponseWriter) *envelope {
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return &envelope{Code: http.StatusServiceUnavailable, Message: err.Error()}
	}
	return nil
}

// webRequest is a request as the handlers of messages see it.
type webRequest struct {
	subject string
	data    []byte
	// answers has room for the one answer, so that nobody waits for a client that has gone.
	answers chan envelope
}

func newWebRequest(subject string, data []byte) webRequest {
	return webRequest{subject: subject, data: data, answers: make(chan envelope, 1)}
}

// Subject implements question.
func (r webRequest) Subject() string { return r.subject }

// Reply implements question: somebody waits.
func (r webRequest) Reply() string { return "http" }

// Data implements question.
func (r webRequest) Data() []byte { return r.data }

func (r webRequest) answer(e envelope) { r.answers <- e }

// wait gives the answer. It comes in any case; a client that has gone is not waited for.
func (r webRequest) wait(ctx context.Context) envelope {
	select {
	case e := <-r.answers:
		return e
	case <-ctx.Done():
		return errLeaving
	}
}

// turn waits for the turn of a request and gives what ends it, nil where too many others are in hand.
func (s *web) turn(ctx context.Context) func() {
	ctx, cancel := context.WithTimeout(ctx, webTurn)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }
	case <-ctx.Done():
		return nil
	}
}

var errWebBusy = envelope{Code: http.StatusServiceUnavailable, Message: "nothing was stored: too many HTTP requests at once"}

// push takes a job, or an array of jobs, as JSON.
func (s *web) push(w http.ResponseWriter, r *http.Request) envelope {
	if f := knownParameters(r); f != nil {
		return f.envelope()
	}
	done := s.turn(r.Context())
	if done == nil {
		return errWebBusy
	}
	defer done()
	data, f := readBody(w, r, s.intake.limits.MaxBody+webEnvelope)
	if f != nil {
		return f.envelope()
	}
	request := newWebRequest(s.intake.subjects.push(), data)
	s.intake.take(request, traceHeaders(r.Header))
	return request.wait(r.Context())
}

// finish takes the id of a job.
func (s *web) finish(_ http.ResponseWriter, r *http.Request) envelope {
	if f := knownParameters(r, "job_id"); f != nil {
		return f.envelope()
	}
	done := s.turn(r.Context())
	if done == nil {
		return errWebBusy
	}
	defer done()
	id := r.URL.Query().Get("job_id")
	if id == "" {
		return badShape("job_id", "is missing").envelope()
	}
	// As a JSON string, so that an id that begins with a bracket is one.
	request := newWebRequest(s.acks.subjects.verb(string(delay.VerbFinish)), appendString(nil, id))
	s.acks.take(delay.VerbFinish, request)
	return request.wait(r.Context())
}

// pop hands out one job, or waits for one.
func (s *web) pop(w http.ResponseWriter, r *http.Request) envelope {
	if f := knownParameters(r, "topic", "wait"); f != nil {
		return f.envelope()
	}
	query := r.URL.Query()
	topic := query.Get("topic")
	if err := delay.CheckTopic(topic); err != nil {
		return badRule("topic", topic, err).envelope()
	}
	wait, f := s.waitOf(query)
	if f != nil {
		return f.envelope()
	}
	select {
	case s.pops <- struct{}{}:
		defer func() { <-s.pops }()
	default:
		return envelope{Code: http.StatusServiceUnavailable, Message: "too many pops wait"}
	}
	if e := patient(w); e != nil {
		return *e
	}
	return s.await(r.Context(), w, topic, wait)
}

func (s *web) waitOf(query url.Values) (time.Duration, *fault) {
	text := query.Get("wait")
	if text == "" {
		return 0, nil
	}
	bounds := s.intake.limits
	bounds.MaxDelay = maxWait
	return bounds.duration("wait", textScalar(text))
}

// popped is what a pop ends with: a job with the headers of its delivery, or why there is none.
type popped struct {
	none   envelope
	job    *delay.Delivery
	header nats.Header
	at     time.Time
}

func (s *web) await(ctx context.Context, w http.ResponseWriter, topic string, wait time.Duration) envelope {
	d := s.dispatcher
	outcome := make(chan popped, 1)
	// over is claimed once: by what the pop ends with, which is then on its way, or by its giving up.
	var over atomic.Bool
	end := func(p popped) bool {
		claimed := over.CompareAndSwap(false, true)
		if claimed {
			outcome <- p
		}
		return claimed
	}
	waiter := &waiter{
		none: func(e envelope) { end(popped{none: e}) },
		give: func(v *delay.Delivery, header nats.Header) bool {
			return end(popped{job: v, header: header, at: d.now()})
		},
	}
	d.pop(topic, waiter, wait) //nolint:contextcheck // looks are for all pops of a topic: see calls
	timer := time.NewTimer(wait + popMargin)
	defer timer.Stop()
	select {
	case p := <-outcome:
		return p.envelope(w, d.now())
	case <-timer.C:
	case <-ctx.Done():
	}
	d.leaves(topic, waiter)
	if over.CompareAndSwap(false, true) {
		return errNoJob
	}
	p := <-outcome // it came in this moment
	return p.envelope(w, d.now())
}

// envelope gives the answer, with the headers of the delivery but those of the pusher, which a browser might heed.
func (p popped) envelope(w http.ResponseWriter, now time.Time) envelope {
	if p.job == nil {
		return p.none
	}
	if now.Sub(p.at) > fenceAfter {
		return errNoJob // this process was stopped for long, and another replica may have delivered the job
	}
	for _, name := range []string{headerID, headerTopic, headerAttempt, headerDueAt, headerTTR, headerAck} {
		w.Header().Set(name, p.header.Get(name))
	}
	body := jsontext.Value(p.job.Body)
	if p.job.Raw && !body.IsValid(jsontext.AllowDuplicateNames(true)) {
		w.Header().Set("Dq-Encoding", "base64")
		body = appendString(nil, base64.StdEncoding.EncodeToString(body))
	}
	return envelope{Code: http.StatusOK, Data: verbatim(body)}
}

// verbatim is JSON that stands in an answer as it is.
type verbatim []byte

func (v verbatim) appendJSON(dst []byte) []byte { return append(dst, v...) }

// knownParameters refuses a query that has others than these, or one of them twice: a mistyped one would be ignored.
func knownParameters(r *http.Request, known ...string) *fault {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badShape("query", "is malformed")
	}
	for _, name := range known {
		if len(query[name]) > 1 {
			return badShape(name, "is given twice")
		}
		delete(query, name)
	}
	for name := range query {
		return badInput("query parameter", name, strings.Join(append(known, "no other"), ", "))
	}
	return nil
}
