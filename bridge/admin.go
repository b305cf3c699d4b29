package bridge

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	// maxPage is the largest page of a listing, defaultPage the one without a limit.
	maxPage     = 1000
	defaultPage = 100
	// adminCalls bounds the admin requests that are carried out at once.
	adminCalls = 16
	// adminTimeout bounds one of them: a purge or kick of a large topic goes on in steps for that long.
	adminTimeout = 5 * time.Minute
)

// admin looks at and changes what is stored, for operators.
type admin struct {
	queue      *delay.Queue
	subjects   subjects
	limits     limits
	answers    *answers
	dispatcher *dispatcher
	replicas   *replicas
	maxPayload func() int64
	now        func() time.Time
	ctx        context.Context //nolint:containedctx // requests come in handlers, which have none
	slots      chan struct{}

	// mu guards left, which says that no request is taken any more, and with it that running does not grow then.
	mu      sync.Mutex
	left    bool
	running sync.WaitGroup
}

func newAdmin(b *Bridge, bounds limits) *admin {
	return &admin{
		queue: b.queue, subjects: b.subjects, limits: bounds, answers: b.answers, dispatcher: b.dispatcher,
		replicas: b.replicas, maxPayload: b.link.MaxPayload, now: b.now, slots: make(chan struct{}, adminCalls),
	}
}

// wait takes no more requests, and waits until none is carried out any more.
func (a *admin) wait() {
	a.mu.Lock()
	a.left = true
	a.mu.Unlock()
	a.running.Wait()
}

// adminDo carries out a verb.
type adminDo func(ctx context.Context, data []byte) envelope

// adminVerb is something that operators may ask for.
type adminVerb struct {
	name string
	// changes says that it changes what is stored.
	changes bool
	do      adminDo
}

func (a *admin) verbs() []adminVerb {
	return []adminVerb{
		{"get", false, a.get},
		{"list", false, a.list},
		{"cancel", true, a.cancel},
		{"run", true, a.run},
		{"reschedule", true, a.reschedule},
		{"kick", true, a.kick},
		{"purge", true, a.purge},
		{"pause", true, a.pause},
		{"resume", true, a.resume},
		{"topics", false, a.topics},
		{"stats", false, a.stats},
	}
}

func (a *admin) endpoints() []endpoint {
	var list []endpoint
	var names []string
	for _, v := range a.verbs() {
		list = append(list, endpoint{name: "admin-" + v.name, subject: a.subjects.admin(v.name), handle: a.handler(v.do)})
		names = append(names, v.name)
	}
	return append(list, endpoint{
		name: "admin", subject: a.subjects.admin("*"), handle: a.unknown(names), group: serviceGroup + "-admin",
	})
}

func (a *admin) handler(do adminDo) func(micro.Request) {
	return func(r micro.Request) {
		a.carryOut(do, r.Data(), func(e envelope) { a.answers.reply(r, e, -1, nil) })
	}
}

// carryOut carries out a verb beside the others, so that a long one holds up nobody, and tells its answer, once.
func (a *admin) carryOut(do adminDo, data []byte, done func(envelope)) {
	select {
	case a.slots <- struct{}{}:
	default:
		done(envelope{Code: http.StatusServiceUnavailable, Message: "too many admin requests at once", Reason: reasonBusy})
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left {
		<-a.slots
		done(errLeaving)
		return
	}
	a.running.Go(func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(a.ctx, adminTimeout)
		defer cancel()
		done(do(ctx, data))
	})
}

// unknown refuses verbs that there are none of. Those that there are have endpoints of their own, and are answered there.
func (a *admin) unknown(names []string) func(micro.Request) {
	return func(r micro.Request) {
		if verb := strings.TrimPrefix(r.Subject(), a.subjects.admin("")); !slices.Contains(names, verb) {
			a.answers.refuse(r, badVerb(verb, names))
		}
	}
}

func badVerb(verb string, known []string) *fault {
	return badInput("verb", verb, strings.Join(known, ", "))
}

// decodeRequest decodes an object with known fields, each once. An empty payload is an empty object.
func decodeRequest(data []byte, into any) *fault {
	if len(data) == 0 {
		return nil
	}
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return badInput("request", string(data), "one JSON object with "+strings.Join(fieldsOf(into), ", "))
	}
	field := strings.TrimPrefix(string(semantic.JSONPointer), "/")
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return badShape(excerpt(field), "is not a field of this request, allowed are "+strings.Join(fieldsOf(into), ", "))
	case field == "":
		return badInput("request", string(data), "a JSON object with "+strings.Join(fieldsOf(into), ", "))
	case semantic.GoType.Kind() == reflect.String:
		return badInput(field, string(semantic.JSONValue), "a string")
	}
	return badInput(field, string(semantic.JSONValue), "a whole number")
}

// fieldsOf gives the names of the fields of a request, which into points to.
func fieldsOf(into any) []string {
	names := []string{}
	for field := range reflect.TypeOf(into).Elem().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	if len(names) == 0 {
		return []string{"no fields"}
	}
	return names
}

// checked gives a fault where id or topic break their rules.
func checked(field, value string, rule func(string) error) *fault {
	if err := rule(value); err != nil {
		return badRule(field, value, err)
	}
	return nil
}

func pageLimit(limit *int) (int, *fault) {
	if limit == nil {
		return defaultPage, nil
	}
	if *limit < 1 || *limit > maxPage {
		return 0, badInput("limit", strconv.Itoa(*limit), "1 to "+strconv.Itoa(maxPage))
	}
	return *limit, nil
}

// failed is the answer to an admin request that met an error of the store.
func failed(id string, state delay.State, err error) envelope {
	switch {
	case errors.Is(err, delay.ErrNotFound):
		return envelope{Code: http.StatusNotFound, Message: "id " + excerpt(id) + ": no such job", Reason: reasonNotFound}
	case errors.Is(err, delay.ErrState):
		return envelope{Code: http.StatusConflict, Message: "id " + excerpt(id) + ": the job is " + string(state), Reason: reasonState}
	case errors.Is(err, delay.ErrTooFar):
		return tooFar().envelope()
	}
	return unavailable(err, nil)
}

type idRequest struct {
	ID string `json:"id"`
}

func decodeIDRequest(data []byte) (string, *fault) {
	var r idRequest
	if f := decodeRequest(data, &r); f != nil {
		return "", f
	}
	return r.ID, checked("id", r.ID, delay.CheckID)
}

func (a *admin) get(ctx context.Context, data []byte) envelope {
	id, f := decodeIDRequest(data)
	if f != nil {
		return f.envelope()
	}
	job, err := a.queue.Get(ctx, id)
	if err != nil {
		return failed(id, delay.Unknown, err)
	}
	return envelope{Code: http.StatusOK, Data: newJobReply(&job, a.bodyRoom())}
}

// bodyRoom is how large a body may be in an answer.
func (a *admin) bodyRoom() int { return int(a.maxPayload()) - 64<<10 }

func (a *admin) cancel(_ context.Context, data []byte) envelope {
	id, f := decodeIDRequest(data)
	if f != nil {
		return f.envelope()
	}
	settled := make(chan delay.Settled, 1)
	a.queue.Settle(delay.VerbFinish, delay.Ack{ID: id}, delay.Awaited, func(r delay.Settled) { settled <- r })
	r := <-settled
	if r.Err != nil {
		return failed(id, r.State, r.Err)
	}
	return envelope{Code: http.StatusOK, Data: stateReply{ID: id, State: r.State}}
}

func (a *admin) run(ctx context.Context, data []byte) envelope {
	id, f := decodeIDRequest(data)
	if f != nil {
		return f.envelope()
	}
	return a.move(ctx, id, 0, time.Time{})
}

func (a *admin) reschedule(ctx context.Context, data []byte) envelope {
	var r struct {
		ID    string         `json:"id"`
		Delay jsontext.Value `json:"delay"`
		At    jsontext.Value `json:"at"`
	}
	f := decodeRequest(data, &r)
	if f == nil {
		f = checked("id", r.ID, delay.CheckID)
	}
	if f == nil && given(r.Delay) == given(r.At) {
		f = badShape("delay", "or at is wanted, one of the two")
	}
	var (
		wait time.Duration
		at   time.Time
	)
	if f == nil && given(r.Delay) {
		wait, f = a.limits.duration("delay", jsonScalar(r.Delay))
	} else if f == nil {
		at, f = jsonScalar(r.At).moment("at")
	}
	if f != nil {
		return f.envelope()
	}
	return a.move(ctx, r.ID, wait, at)
}

func (a *admin) move(ctx context.Context, id string, wait time.Duration, at time.Time) envelope {
	r, err := a.queue.Reschedule(ctx, id, wait, at)
	if err != nil {
		return failed(id, r.State, err)
	}
	return envelope{Code: http.StatusOK, Data: stateReply{ID: id, State: r.State, DueAt: formatTime(r.DueAt)}}
}

func (a *admin) pause(ctx context.Context, data []byte) envelope {
	return a.setPaused(ctx, data, true)
}

func (a *admin) resume(ctx context.Context, data []byte) envelope {
	return a.setPaused(ctx, data, false)
}

func (a *admin) setPaused(ctx context.Context, data []byte, paused bool) envelope {
	var r struct {
		Topic string `json:"topic"`
	}
	f := decodeRequest(data, &r)
	if f == nil {
		f = checked("topic", r.Topic, delay.CheckTopic)
	}
	if f != nil {
		return f.envelope()
	}
	var err error
	if paused {
		err = a.queue.Pause(ctx, r.Topic, a.now())
	} else {
		err = a.queue.Resume(ctx, r.Topic)
	}
	if err == nil {
		var names []string
		reading := a.dispatcher.pauseReading()
		names, err = a.queue.Paused(ctx)
		if err == nil {
			a.dispatcher.setPaused(reading, names)
		}
	}
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	return envelope{Code: http.StatusOK, Data: pauseReply{r.Topic, paused}}
}

type pauseReply struct {
	Topic  string `json:"topic"`
	Paused bool   `json:"paused"`
}
