package bridge

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/delay"
)

// limits are the bounds that a push is checked against.
type limits struct {
	MaxDelay    time.Duration // the longest delay, TTR, backoff pause and expires
	MaxBody     int           // bytes
	MaxBatch    int           // jobs or ids in one message
	DefaultTTR  time.Duration // for jobs without ttr
	MaxAttempts int           // for jobs without max_attempts
}

// pushed is one job of a push message, or why it is none.
type pushed struct {
	Job   delay.Job // counts only without a Fault
	Fault *fault
	Raw   []byte // the job's own bytes within the payload: shares its memory
}

// decodePush decodes a push message. topic is the subject's tail on dq.push.<topic>, else empty. The second
// result says that the payload was an array. The fault is one of the message as a whole; jobs have their own.
// A job without any id leaves its Job.ID empty.
func decodePush(topic string, header nats.Header, data []byte, lim limits) ([]pushed, bool, *fault) {
	p := pushReader{lim: lim, topic: topic}
	if topic != "" {
		if err := delay.CheckTopic(topic); err != nil {
			return nil, false, badRule("topic", topic, err)
		}
	}
	if f := p.readHeader(header); f != nil {
		return nil, false, f
	}
	if p.form {
		return []pushed{p.headerJob(header, data)}, false, nil
	}
	p.json = openJSON(data)
	defer p.json.close()
	return p.payload()
}

// pushReader decodes one push message.
type pushReader struct {
	lim   limits
	topic string // of the subject, checked; empty: each job names its own
	msgID string // Nats-Msg-Id
	form  bool   // header form: the payload is the body
	own   nats.Header
	// ownBlock is own in its encoded form, which all jobs without a headers field share.
	ownBlock []byte
	json     *jsonReader
}

func (p *pushReader) payload() ([]pushed, bool, *fault) {
	switch kind := p.json.dec.PeekKind(); kind {
	case jsontext.KindBeginObject:
		job, err := p.object(-1)
		if err != nil {
			return nil, false, p.json.fault(err)
		}
		if f := p.json.end(); f != nil {
			return nil, false, f
		}
		return []pushed{job}, false, nil
	case jsontext.KindBeginArray:
		jobs, f := readArray(p.json, p.lim.MaxBatch, p.element)
		return jobs, true, f
	default:
		return nil, false, p.json.unfit("a job as a JSON object, or an array of them")
	}
}

func (p *pushReader) element(index int) (pushed, error) {
	if p.json.dec.PeekKind() == jsontext.KindBeginObject {
		return p.object(index)
	}
	raw, err := p.json.dec.ReadValue()
	return pushed{Raw: raw, Fault: badInput("job", string(raw), "a JSON object")}, err
}

// readArray reads the whole payload as an array of at most limit elements, each by way of element, which
// returns only errors of syntax.
func readArray[T any](r *jsonReader, limit int, element func(index int) (T, error)) ([]T, *fault) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, r.fault(err)
	}
	var list []T
	for r.dec.PeekKind() != jsontext.KindEndArray {
		if len(list) == limit {
			return nil, tooLarge("array", limit+1, limit, "elements or more")
		}
		item, err := element(len(list))
		if err != nil {
			return nil, r.fault(err)
		}
		list = append(list, item)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, r.fault(err)
	}
	if f := r.end(); f != nil {
		return nil, f
	}
	if len(list) == 0 {
		return nil, badShape("array", "is empty, allowed are 1 to "+strconv.Itoa(limit)+" elements")
	}
	return list, nil
}

// jsonReaders keeps readers for the next message, which halves what a push allocates. It is a package variable
// because a payload is read by plain functions; a reader in it holds nothing of the payload that it read.
var jsonReaders = sync.Pool{New: func() any { return newJSONReader() }}

// jsonReader reads one payload without copying it. Values that it returns share the payload's memory.
type jsonReader struct {
	data []byte
	buf  bytes.Buffer
	dec  jsontext.Decoder
}

func newJSONReader() *jsonReader {
	r := new(jsonReader)
	r.reset()
	return r
}

// openJSON returns a reader of data, to be closed.
func openJSON(data []byte) *jsonReader {
	r, ok := jsonReaders.Get().(*jsonReader)
	if !ok {
		r = newJSONReader()
	}
	r.data = data
	r.buf = *bytes.NewBuffer(data)
	return r
}

func (r *jsonReader) close() {
	r.reset()
	jsonReaders.Put(r)
}

// reset allows names to be given twice: what is in a body is its owner's affair, and a job's own are checked here.
func (r *jsonReader) reset() {
	r.data = nil
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf, jsontext.AllowDuplicateNames(true))
}

// since returns the payload from start to behind the last token.
func (r *jsonReader) since(start int64) []byte {
	end := r.dec.InputOffset()
	return r.data[start:end:end]
}

// end returns a fault if anything follows the value that was read.
func (r *jsonReader) end() *fault {
	at := r.dec.InputOffset()
	if _, err := r.dec.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return badShape("payload", "goes on after its JSON value at byte "+strconv.FormatInt(at, 10)+
		" with "+excerpt(string(bytes.TrimSpace(r.data[at:])))+", allowed is one JSON value")
}

// unfit is the fault of a payload that is no JSON, or of a kind that is not allowed.
func (r *jsonReader) unfit(allowed string) *fault {
	if len(bytes.Trim(r.data, " \t\r\n")) == 0 {
		return badShape("payload", "is empty, allowed is "+allowed)
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.fault(err)
	}
	return badInput("payload", string(raw), allowed)
}

// fault turns an error of syntax into the whole payload's fault.
func (r *jsonReader) fault(err error) *fault {
	if bytes.HasPrefix(r.data, []byte("\xef\xbb\xbf")) {
		return badShape("payload", "begins with a byte order mark, allowed is JSON without one")
	}
	const longest = 300
	text := strings.TrimPrefix(err.Error(), "jsontext: ")
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text = "ends too early"
	}
	if len(text) > longest {
		text = text[:longest]
	}
	return badShape("payload", "is not valid JSON: "+strings.ToValidUTF8(text, "")+
		"; allowed is one JSON value in UTF-8 (bytes that are no text: as base64, or in the header form)")
}
