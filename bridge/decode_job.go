package bridge

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// maxMaxAttempts is more deliveries than a job can live to see.
const maxMaxAttempts = 1_000_000_000

// fields is a set of a job's fields.
type fields uint16

const (
	fieldID fields = 1 << iota
	fieldTopic
	fieldDelay
	fieldAt
	fieldTTR
	fieldBody
	fieldMaxAttempts
	fieldBackoff
	fieldExpires
	fieldOnDuplicate
	fieldHeaders
	fieldAttempt
	fieldDueAt
	fieldPushedAt

	// fieldsIgnored are those that only a delivered job has.
	fieldsIgnored = fieldAttempt | fieldDueAt | fieldPushedAt
)

const jobFields = "id, topic, delay, at, ttr, body, max_attempts, backoff, expires, on_duplicate, headers"

// jobField returns the field of exactly that name and the name, or 0.
func jobField(name []byte) (fields, string) {
	switch string(name) {
	case "id":
		return fieldID, "id"
	case "topic":
		return fieldTopic, "topic"
	case "delay":
		return fieldDelay, "delay"
	case "at":
		return fieldAt, "at"
	case "ttr":
		return fieldTTR, "ttr"
	case "body":
		return fieldBody, "body"
	case "max_attempts":
		return fieldMaxAttempts, "max_attempts"
	case "backoff":
		return fieldBackoff, "backoff"
	case "expires":
		return fieldExpires, "expires"
	case "on_duplicate":
		return fieldOnDuplicate, "on_duplicate"
	case "headers":
		return fieldHeaders, "headers"
	case "attempt":
		return fieldAttempt, "attempt"
	case "due_at":
		return fieldDueAt, "due_at"
	case "pushed_at":
		return fieldPushedAt, "pushed_at"
	}
	return 0, ""
}

// draft is a job on its way in. Its first fault counts; the rest is read all the same, since only the whole
// payload shows whether it is JSON.
type draft struct {
	push    *pushReader
	out     *pushed
	named   fields // names that occurred
	given   fields // those with a value
	headers nats.Header
}

func (d *draft) fail(f *fault) {
	if d.out.Fault == nil {
		d.out.Fault = f
	}
}

// object reads one job. index is its place in the array, or -1. The error is one of syntax.
func (p *pushReader) object(index int) (pushed, error) {
	if _, err := p.json.dec.ReadToken(); err != nil {
		return pushed{}, err
	}
	start := p.json.dec.InputOffset() - 1
	var out pushed
	d := draft{push: p, out: &out}
	for p.json.dec.PeekKind() != jsontext.KindEndObject {
		name, value, err := p.json.member()
		if err != nil {
			return pushed{}, err
		}
		d.member(name, value)
	}
	if _, err := p.json.dec.ReadToken(); err != nil {
		return pushed{}, err
	}
	d.finish(index)
	out.Raw = p.json.since(start)
	return out, nil
}

// member reads one name, decoded ("\u0069d" is id), and its value.
func (r *jsonReader) member() ([]byte, jsontext.Value, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, nil, err
	}
	name := unquote(raw)
	value, err := r.dec.ReadValue()
	return name, value, err
}

// unquote returns what a valid JSON string says, in the string's own memory where it has no escapes.
func unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // the decoder has checked it
	return text
}

func jsonScalar(value jsontext.Value) scalar {
	switch value.Kind() {
	case jsontext.KindNumber:
		return scalar{text: value, raw: value, number: true}
	case jsontext.KindString:
		return scalar{text: unquote(value), raw: value, str: true}
	default:
		return scalar{raw: value}
	}
}

func (d *draft) member(key []byte, value jsontext.Value) {
	field, name := jobField(key)
	switch {
	case field == 0:
		d.fail(badShape("field "+excerpt(string(key)), "is unknown, allowed are "+jobFields))
		return
	case d.named&field != 0:
		d.fail(badShape(name, "is given twice, allowed is once"))
		return
	}
	d.named |= field
	if field&fieldsIgnored != 0 || field != fieldBody && value.Kind() == jsontext.KindNull {
		return
	}
	d.given |= field
	switch field {
	case fieldBody:
		d.setBody(value)
	case fieldBackoff:
		d.setBackoff(name, value)
	case fieldHeaders:
		d.setHeaders(value)
	default:
		d.setScalar(field, name, jsonScalar(value))
	}
}

// setScalar sets what is one number or string, from JSON or from the header called name.
func (d *draft) setScalar(field fields, name string, v scalar) {
	var f *fault
	lim := &d.push.lim
	switch field {
	case fieldID:
		d.out.Job.ID, f = v.id(name)
	case fieldTopic:
		f = d.setTopic(name, v)
	case fieldDelay:
		d.out.Job.Delay, f = lim.duration(name, v)
	case fieldAt:
		d.out.Job.At, f = v.moment(name)
	case fieldTTR:
		d.out.Job.TTR, f = lim.duration(name, v)
	case fieldMaxAttempts:
		d.out.Job.MaxAttempts, f = v.count(name, maxMaxAttempts)
	case fieldExpires:
		// Zero means never in a job, so what expires at once does so a moment later.
		d.out.Job.Expires, f = lim.duration(name, v)
		d.out.Job.Expires = max(d.out.Job.Expires, time.Millisecond)
	case fieldOnDuplicate:
		d.out.Job.Replace, f = v.replace(name)
	default: // the others are no scalars
	}
	if f != nil {
		d.fail(f)
	}
}

// id reads an id; an empty one is as none.
func (v scalar) id(name string) (string, *fault) {
	if !v.str {
		return "", badInput(name, string(v.raw), "a string")
	}
	id := string(v.text)
	if id == "" {
		return "", nil
	}
	if err := delay.CheckID(id); err != nil {
		return "", badRule(name, string(v.raw), err)
	}
	return id, nil
}

func (d *draft) setTopic(name string, v scalar) *fault {
	own := d.push.topic
	switch {
	case !v.str:
		return badInput(name, string(v.raw), "a string")
	case own == "":
		d.out.Job.Topic = string(v.text)
		if err := delay.CheckTopic(d.out.Job.Topic); err != nil {
			return badRule(name, string(v.raw), err)
		}
	case string(v.text) != own:
		return badInput(name, string(v.raw), "the subject's topic "+excerpt(own)+", or none")
	}
	return nil
}

func (v scalar) replace(name string) (bool, *fault) {
	if v.str {
		switch string(v.text) {
		case "keep":
			return false, nil
		case "replace":
			return true, nil
		}
	}
	return false, badInput(name, string(v.raw), `"keep" or "replace"`)
}

func (d *draft) setBody(body []byte) {
	if limit := d.push.lim.MaxBody; len(body) > limit {
		d.fail(tooLarge("body", len(body), limit, "bytes"))
		return
	}
	d.out.Job.Body = bytes.Clone(body)
}

func (d *draft) setBackoff(name string, value jsontext.Value) {
	if value.Kind() != jsontext.KindBeginArray {
		d.fail(badInput(name, string(value), "an array of delays"))
		return
	}
	r := openJSON(value)
	defer r.close()
	_, err := r.dec.ReadToken()
	for err == nil && r.dec.PeekKind() != jsontext.KindEndArray {
		var pause jsontext.Value
		if pause, err = r.dec.ReadValue(); err != nil || !d.addPause(name, jsonScalar(pause)) {
			return
		}
	}
}

func (d *draft) addPause(name string, v scalar) bool {
	n := len(d.out.Job.Backoff)
	if n == delay.MaxBackoff {
		d.fail(badShape(name, "has too many entries, allowed are "+strconv.Itoa(delay.MaxBackoff)))
		return false
	}
	pause, f := d.push.lim.duration(name+"["+strconv.Itoa(n)+"]", v)
	if f != nil {
		d.fail(f)
		return false
	}
	d.out.Job.Backoff = append(d.out.Job.Backoff, pause)
	return true
}

// finish fills in what was not given and checks what depends on several fields.
func (d *draft) finish(index int) {
	p := d.push
	if p.topic != "" {
		d.out.Job.Topic = p.topic
	} else if d.given&fieldTopic == 0 {
		d.fail(badShape("topic", "is missing, allowed is a string of 1 to "+strconv.Itoa(delay.MaxTopicBytes)+" bytes"))
	}
	if both := fieldDelay | fieldAt; d.given&both == both {
		d.fail(badShape("at", "is given beside delay, allowed is one of them"))
	}
	if d.given&fieldTTR == 0 {
		d.out.Job.TTR = p.lim.DefaultTTR
	}
	if d.given&fieldMaxAttempts == 0 {
		d.out.Job.MaxAttempts = p.lim.MaxAttempts
	}
	if d.given&fieldBody == 0 {
		d.out.Job.Body = []byte(`""`)
	}
	if d.out.Job.ID == "" && p.msgID != "" && d.out.Fault == nil {
		d.setMsgID(index)
	}
	d.mergeHeaders()
}

// setMsgID takes the id from the message, so that a push that is sent again makes no second job.
func (d *draft) setMsgID(index int) {
	id := d.push.msgID
	if index >= 0 {
		id += "-" + strconv.Itoa(index)
	}
	if err := delay.CheckID(id); err != nil {
		d.fail(badRule(headerMsgID, id, err))
		return
	}
	d.out.Job.ID = id
}
