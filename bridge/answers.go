package bridge

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// answers sends replies to requests, and announces what went wrong with messages that want none.
type answers struct {
	link     *Link
	subjects subjects
	metrics  *metrics
	log      zerolog.Logger
	// loud bounds how many rejections are logged.
	loud *rate.Limiter
}

// question is a message as far as its answer needs it.
type question interface {
	Subject() string
	Reply() string
	Data() []byte
}

// caller is a question whose answer goes back to who asks, not to a subject. Its Reply is not empty.
type caller interface {
	question
	answer(e envelope)
}

func headersOf(r micro.Request) nats.Header { return nats.Header(r.Headers()) }

// refuse answers a fault of the message as a whole, while its handler runs: so that the service's own statistics count it.
func (a *answers) refuse(q question, f *fault) {
	r, isRequest := q.(micro.Request)
	if !isRequest || r.Reply() == "" {
		a.reply(q, f.envelope(), -1, nil)
		return
	}
	a.metrics.rejected(f.Code, f.Reason)
	data, err := f.envelope().encode()
	if err == nil {
		err = r.Error(strconv.Itoa(f.Code), f.Message, data)
	}
	if err != nil {
		a.metrics.trouble("reply", err)
	}
}

// reply sends an envelope, or announces it where it is an error and nobody waits. index is the position in an array
// that it is about, with the element's own bytes; -1: the whole.
func (a *answers) reply(q question, e envelope, index int, element []byte) {
	if e.Code >= http.StatusBadRequest {
		a.metrics.rejected(e.Code, e.Reason)
	}
	if q.Reply() == "" {
		if e.Code >= http.StatusBadRequest {
			a.reject(q, e, index, element)
		}
		return
	}
	if c, ok := q.(caller); ok {
		c.answer(e)
		return
	}
	data, err := a.fit(e)
	if err != nil {
		a.log.Error().Err(err).Msg("reply cannot be encoded")
		return
	}
	msg := &nats.Msg{Subject: q.Reply(), Data: data}
	if e.Code >= http.StatusBadRequest {
		msg.Header = nats.Header{
			headerServiceErrorCode: {strconv.Itoa(e.Code)}, headerServiceError: {e.Message},
		}
	}
	if err := a.link.PublishMsg(msg); err != nil {
		a.metrics.trouble("reply", err)
	}
}

// shortMessage is how long the messages of an array's answers are where they would not fit into one reply otherwise.
const shortMessage = 120

// fit encodes an envelope. Where the answers to an array are too long for a message, their texts are cut.
func (a *answers) fit(e envelope) ([]byte, error) {
	data, err := e.encode()
	list, isList := e.Data.([]envelope)
	if limit := a.link.MaxPayload(); err != nil || !isList || limit == 0 || int64(len(data)) <= limit {
		return data, err
	}
	cut := slices.Clone(list)
	for i := range cut {
		cut[i].Message = excerptOf(cut[i].Message, shortMessage)
		if cut[i].Code != http.StatusOK {
			cut[i].Data = nil
		}
	}
	e.Data = cut
	data, err = e.encode()
	if err == nil && int64(len(data)) > a.link.MaxPayload() {
		e.Data, e.Message = nil, e.Message+", the answers do not fit into one message"
		return e.encode()
	}
	return data, err
}

// unconfirmed answers an ack that is not confirmed in the form in which NATS says that nobody answers, with the reason
// in the headers: a client's AckSync takes every other answer for a confirmation.
func (a *answers) unconfirmed(q question, e envelope) {
	a.metrics.rejected(e.Code, e.Reason)
	msg := &nats.Msg{Subject: q.Reply(), Header: nats.Header{
		"Status": {strconv.Itoa(e.Code)}, headerServiceErrorCode: {strconv.Itoa(e.Code)}, headerServiceError: {e.Message},
	}}
	if err := a.link.PublishMsg(msg); err != nil {
		a.metrics.trouble("reply", err)
	}
}

// reject announces on dq.event.rejected what nobody is told of otherwise.
func (a *answers) reject(q question, e envelope, index int, element []byte) {
	if a.loud.Allow() {
		a.log.Warn().Str("subject", q.Subject()).Int("code", e.Code).Str("reason", e.Message).Msg("message is rejected")
	}
	msg := nats.NewMsg(a.subjects.event("rejected"))
	msg.Header[headerError] = []string{e.Message}
	msg.Header[headerErrorCode] = []string{strconv.Itoa(e.Code)}
	msg.Data = q.Data()
	if index >= 0 {
		msg.Header[headerIndex] = []string{strconv.Itoa(index)}
		msg.Data = element
	}
	truncate(msg, a.link.MaxPayload())
	if err := a.link.PublishMsg(msg); err != nil {
		a.metrics.trouble("announce", err)
	}
}

// truncate cuts the payload of an advisory that does not fit beside its headers.
func truncate(msg *nats.Msg, limit int64) {
	const perHeader = 8 // ": " and the line end, generously
	size := int64(64)
	for name, values := range msg.Header {
		for _, value := range values {
			size += int64(len(name) + len(value) + perHeader)
		}
	}
	if room := max(limit-size, 0); limit > 0 && int64(len(msg.Data)) > room {
		msg.Header[headerTruncated] = []string{"true"}
		msg.Data = msg.Data[:room]
	}
}
