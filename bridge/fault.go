package bridge

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fault is why a request, or one job of it, was not carried out: a code of the contract's section 3 and a
// text for whoever sent it. The text is one line of printable UTF-8, so it is safe in a header and a log.
type fault struct {
	Code    int
	Message string
	Reason  reason
}

func (f *fault) Error() string { return f.Message }

func (f *fault) envelope() envelope { return f.as(f.Code) }

// as gives the envelope of a fault under another code.
func (f *fault) as(code int) envelope {
	return envelope{Code: code, Message: f.Message, Reason: f.Reason}
}

// badInput is for a field that holds something else than what is allowed; held is shown in excerpt.
func badInput(field, held, allowed string) *fault {
	return &fault{http.StatusBadRequest, field + " is " + excerpt(held) + ", allowed is " + allowed, reasonValue}
}

// badRule is for a field whose value breaks a rule; err says which, as delay.CheckID and CheckTopic do.
func badRule(field, held string, err error) *fault {
	return &fault{http.StatusBadRequest, field + " " + excerpt(held) + " " + err.Error(), reasonValue}
}

// badShape is for a field or message that is wrong as a whole, whatever it holds.
func badShape(field, wrong string) *fault {
	return &fault{http.StatusBadRequest, field + " " + wrong, reasonMalformed}
}

// tooLarge is for a field that has more of something than is allowed.
func tooLarge(field string, held, allowed int, unit string) *fault {
	return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("%s has %d %s, allowed are %d", field, held, unit, allowed), reasonTooLarge}
}

// excerpt returns the beginning of s, at most about 60 bytes, with all that does not print escaped:
// a held value comes from a stranger and goes to logs, headers and terminals.
func excerpt(s string) string { return excerptOf(s, 60) }

func excerptOf(s string, limit int) string {
	if s == "" {
		return `""`
	}
	out := make([]byte, 0, limit+16)
	for len(s) > 0 {
		if len(out) >= limit {
			return string(out) + "..."
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, s[0])
		case !unicode.IsPrint(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, s[:size]...)
		}
		s = s[size:]
	}
	return string(out)
}

// envelope is the reply to every request.
type envelope struct {
	Code    int
	Message string
	// Data is null in most errors. A value with appendJSON writes itself; any other goes through reflection.
	Data any
	// Reason is of an error, for the metrics; it is not sent.
	Reason reason
}

// jsonAppender is a reply on the way of every job, so it is written without reflection.
type jsonAppender interface {
	appendJSON(dst []byte) []byte
}

// encode returns the envelope as JSON. It fails only on Data that no JSON can hold.
func (e envelope) encode() ([]byte, error) {
	return e.append(make([]byte, 0, 160))
}

func (e envelope) append(dst []byte) ([]byte, error) {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"data":`...)
	dst, err := appendData(dst, e.Data)
	return append(dst, '}'), err
}

func appendData(dst []byte, data any) ([]byte, error) {
	switch data := data.(type) {
	case nil:
		return append(dst, "null"...), nil
	case jsonAppender:
		return data.appendJSON(dst), nil
	case []envelope:
		return appendEnvelopes(dst, data)
	}
	encoded, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return dst, fmt.Errorf("encode reply data: %w", err)
	}
	return append(dst, encoded...), nil
}

func appendEnvelopes(dst []byte, list []envelope) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = e.append(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendString writes s as a JSON string and leaves <, > and & as they are.
// Bytes that are no UTF-8 become U+FFFD; that is all its error would say.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// pushReply is the data of the reply to a push.
type pushReply struct {
	ID        string
	DueAt     time.Time
	Duplicate bool
	// Replaced says that the job took the place of a stored one; left out where false.
	Replaced bool
	// State is the stored job's state on a duplicate; left out where empty.
	State string
}

func (r pushReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, r.ID)
	dst = append(dst, `,"due_at":"`...)
	dst = appendTime(dst, r.DueAt)
	dst = append(dst, `","duplicate":`...)
	dst = strconv.AppendBool(dst, r.Duplicate)
	if r.Replaced {
		dst = append(dst, `,"replaced":true`...)
	}
	if r.State != "" {
		dst = append(dst, `,"state":`...)
		dst = appendString(dst, r.State)
	}
	return append(dst, '}')
}
