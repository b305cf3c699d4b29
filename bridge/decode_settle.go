package bridge

import (
	"bytes"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dqbridge/dqbridge/delay"
)

// The verbs that settle a delivery, as in the subjects by id.
const (
	verbFinish  = "finish"
	verbRelease = "release"
	verbTouch   = "touch"
	verbBury    = "bury"
)

// maxReasonBytes keeps the reason of a bury short: it is stored with the job and goes into a header.
const maxReasonBytes = 200

// settleItem is one element of a verb by id, or why it is none.
type settleItem struct {
	ID       string
	Attempt  int // 0: not given
	Delay    time.Duration
	HasDelay bool
	Reason   string
	Fault    *fault
	Raw      []byte // the element's own bytes within the payload: shares its memory
}

const settleForms = "a job id as plain text, a JSON string, an object with id, or an array of these"

// decodeSettle decodes the payload of a verb by id. The second result says that it was an array. The fault is
// one of the message as a whole; elements have their own.
func decodeSettle(verb string, data []byte, lim limits) ([]settleItem, bool, *fault) {
	if len(data) == 0 {
		return nil, false, badShape("payload", "is empty, allowed is "+settleForms)
	}
	switch data[0] {
	case '{', '[', '"':
	default:
		item := settleItem{Raw: data}
		item.setID("id", scalar{text: data, raw: data, str: true})
		return []settleItem{item}, false, nil
	}
	s := settleReader{verb: verb, lim: lim, json: openJSON(data)}
	defer s.json.close()
	if data[0] == '[' {
		items, f := readArray(s.json, lim.MaxBatch, s.element)
		return items, true, f
	}
	item, err := s.element(0)
	if err != nil {
		return nil, false, s.json.fault(err)
	}
	if f := s.json.end(); f != nil {
		return nil, false, f
	}
	return []settleItem{item}, false, nil
}

type settleReader struct {
	verb string
	lim  limits
	json *jsonReader
}

// element reads one id or object. The error is one of syntax.
func (s *settleReader) element(int) (settleItem, error) {
	if s.json.dec.PeekKind() == jsontext.KindBeginObject {
		return s.object()
	}
	raw, err := s.json.dec.ReadValue()
	if err != nil {
		return settleItem{}, err
	}
	item := settleItem{Raw: raw}
	item.setID("id", jsonScalar(raw))
	return item, nil
}

// settleFields are the members of an object as they came, as what they mean depends on whether attempt is there.
type settleFields struct {
	id, jobID, attempt, delay, reason jsontext.Value
	unknown                           *fault
	twice                             *fault
}

func (s *settleReader) object() (settleItem, error) {
	if _, err := s.json.dec.ReadToken(); err != nil {
		return settleItem{}, err
	}
	start := s.json.dec.InputOffset() - 1
	var m settleFields
	for s.json.dec.PeekKind() != jsontext.KindEndObject {
		name, value, err := s.json.member()
		if err != nil {
			return settleItem{}, err
		}
		m.set(s.verb, string(name), value)
	}
	if _, err := s.json.dec.ReadToken(); err != nil {
		return settleItem{}, err
	}
	item := m.item(s.lim)
	item.Raw = s.json.since(start)
	return item, nil
}

func (m *settleFields) set(verb, name string, value jsontext.Value) {
	var field *jsontext.Value
	switch {
	case name == "id":
		field = &m.id
	case name == "job_id":
		field = &m.jobID
	case name == "attempt":
		field = &m.attempt
	case name == "delay" && verb == verbRelease:
		field = &m.delay
	case name == "reason" && verb == verbBury:
		field = &m.reason
	case m.unknown == nil:
		m.unknown = badShape("field "+excerpt(name), "is unknown, allowed are "+settleNames(verb))
		return
	default:
		return
	}
	if *field != nil && m.twice == nil {
		m.twice = badShape(name, "is given twice, allowed is once")
	}
	*field = value
}

func settleNames(verb string) string {
	switch verb {
	case verbRelease:
		return "id, job_id, delay, or those of a delivered job with its attempt"
	case verbBury:
		return "id, job_id, reason, or those of a delivered job with its attempt"
	}
	return "id, job_id, or those of a delivered job with its attempt"
}

func (m *settleFields) item(lim limits) settleItem {
	var item settleItem
	whole := given(m.attempt)
	if m.twice != nil {
		item.fail(m.twice)
	} else if m.unknown != nil && !whole {
		item.fail(m.unknown)
	}
	m.setIDs(&item)
	if whole {
		// A delivered job as it is: its delay is the one that it was pushed with.
		item.setAttempt(jsonScalar(m.attempt))
		return item
	}
	if given(m.delay) {
		var f *fault
		item.HasDelay = true
		if item.Delay, f = lim.duration("delay", jsonScalar(m.delay)); f != nil {
			item.fail(f)
		}
	}
	if given(m.reason) {
		item.setReason(jsonScalar(m.reason))
	}
	return item
}

// given reports whether a member has a value: null is as absent.
func given(value jsontext.Value) bool {
	return value != nil && value.Kind() != jsontext.KindNull
}

func (m *settleFields) setIDs(item *settleItem) {
	switch {
	case given(m.id) && given(m.jobID):
		item.setID("id", jsonScalar(m.id))
		if id := jsonScalar(m.jobID); !id.str || string(id.text) != item.ID {
			item.fail(badInput("job_id", string(m.jobID), "the same as id, or none"))
		}
	case given(m.id):
		item.setID("id", jsonScalar(m.id))
	case given(m.jobID):
		item.setID("job_id", jsonScalar(m.jobID))
	default:
		item.fail(badShape("id", "is missing, allowed is a string"))
	}
}

func (i *settleItem) fail(f *fault) {
	if i.Fault == nil {
		i.Fault = f
	}
}

func (i *settleItem) setID(field string, v scalar) {
	if !v.str {
		i.fail(badInput(field, string(v.raw), "a string"))
		return
	}
	id := string(v.text)
	if err := delay.CheckID(id); err != nil {
		i.fail(badRule(field, string(v.raw), err))
		return
	}
	i.ID = id
}

func (i *settleItem) setAttempt(v scalar) {
	n, f := v.count("attempt", maxMaxAttempts)
	if f == nil && n == 0 {
		f = badInput("attempt", string(v.raw), "the number of a delivery, from 1")
	}
	if f != nil {
		i.fail(f)
	}
	i.Attempt = n
}

func (i *settleItem) setReason(v scalar) {
	if !v.str {
		i.fail(badInput("reason", string(v.raw), "a string"))
		return
	}
	i.Reason = cleanReason(v.text)
}

// cleanReason makes text fit for a header and a log: printable, one line, cut to maxReasonBytes.
func cleanReason(text []byte) string {
	clean := make([]byte, 0, min(len(text), maxReasonBytes))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case len(clean)+size > maxReasonBytes:
			return string(bytes.TrimRight(clean, " "))
		case r == utf8.RuneError && size == 1 || !unicode.IsPrint(r):
			r = ' '
		}
		if r != ' ' || len(clean) > 0 {
			clean = utf8.AppendRune(clean, r)
		}
		text = text[size:]
	}
	return string(bytes.TrimRight(clean, " "))
}

// ackVerb is what a message on an ack subject asks for.
type ackVerb struct {
	Verb     string // one of the verb constants
	Delay    time.Duration
	HasDelay bool
	Reason   string
}

const ackForms = `empty, +ACK, -NAK, -NAK {"delay": <nanoseconds>}, +WPI, +TERM or +TERM <reason>`

// decodeAck decodes the payload of a message on an ack subject: the words that JetStream has for it.
func decodeAck(data []byte, lim limits) (ackVerb, *fault) {
	switch string(data) {
	case "", "+ACK":
		return ackVerb{Verb: verbFinish}, nil
	case "-NAK":
		return ackVerb{Verb: verbRelease}, nil
	case "+WPI":
		return ackVerb{Verb: verbTouch}, nil
	case "+TERM":
		return ackVerb{Verb: verbBury}, nil
	}
	if reason, ok := bytes.CutPrefix(data, []byte("+TERM ")); ok {
		return ackVerb{Verb: verbBury, Reason: cleanReason(reason)}, nil
	}
	if options, ok := bytes.CutPrefix(data, []byte("-NAK ")); ok {
		return decodeNak(options, lim)
	}
	return ackVerb{}, badInput("ack payload", string(data), ackForms)
}

func decodeNak(options []byte, lim limits) (ackVerb, *fault) {
	verb := ackVerb{Verb: verbRelease}
	if len(bytes.TrimSpace(options)) == 0 {
		return verb, nil
	}
	r := openJSON(options)
	defer r.close()
	if r.dec.PeekKind() != jsontext.KindBeginObject {
		return verb, badInput("ack payload", "-NAK "+string(options), ackForms)
	}
	value, f := r.nakDelay()
	if f == nil {
		f = r.end()
	}
	if f != nil || !given(value) {
		return verb, f
	}
	verb.HasDelay = true
	verb.Delay, f = lim.nanoseconds("delay", value)
	return verb, f
}

// nakDelay reads an object that has nothing but delay.
func (r *jsonReader) nakDelay() (jsontext.Value, *fault) {
	var delayed jsontext.Value
	_, err := r.dec.ReadToken()
	for err == nil && r.dec.PeekKind() != jsontext.KindEndObject {
		var name []byte
		var value jsontext.Value
		name, value, err = r.member()
		switch {
		case err != nil:
		case string(name) != "delay":
			return nil, badShape("field "+excerpt(string(name)), "is unknown, allowed is delay")
		case delayed != nil:
			return nil, badShape("delay", "is given twice, allowed is once")
		default:
			delayed = value
		}
	}
	if err == nil {
		_, err = r.dec.ReadToken()
	}
	if err != nil {
		return nil, r.fault(err)
	}
	return delayed, nil
}

func (l limits) nanoseconds(field string, value jsontext.Value) (time.Duration, *fault) {
	ms, ok := nanosToMillis(value)
	if !ok || ms > l.MaxDelay.Milliseconds() {
		return 0, badInput(field, string(value), "a number of nanoseconds, up to "+l.longest())
	}
	return time.Duration(ms) * time.Millisecond, nil
}
