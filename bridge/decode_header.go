package bridge

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
)

// Bounds on the headers that a job may have, its message's own included.
const (
	maxHeaderNames = 64
	maxHeaderBytes = 16 << 10
)

// formField returns the field that a header of the header form carries, or 0.
func formField(name string) fields {
	switch name {
	case headerTopic:
		return fieldTopic
	case headerID:
		return fieldID
	case "Dq-Delay":
		return fieldDelay
	case "Dq-At":
		return fieldAt
	case headerTTR:
		return fieldTTR
	case "Dq-Max-Attempts":
		return fieldMaxAttempts
	case "Dq-Backoff":
		return fieldBackoff
	case "Dq-Expires":
		return fieldExpires
	case "Dq-On-Duplicate":
		return fieldOnDuplicate
	}
	return 0
}

const formHeaders = "Dq-Topic, Dq-Id, Dq-Delay, Dq-At, Dq-Ttr, Dq-Max-Attempts, Dq-Backoff, Dq-Expires, Dq-On-Duplicate"

// readHeader sorts the message's headers into ours and those to pass on.
func (p *pushReader) readHeader(header nats.Header) *fault {
	if len(header) == 0 {
		return nil
	}
	// A delivered message that is forwarded as it is: what it says of its delivery is not for this push.
	_, forwarded := header[headerAck]
	for _, name := range slices.Sorted(maps.Keys(header)) {
		switch {
		case hasPrefixFold(name, "Nats-"):
		case !hasPrefixFold(name, "Dq-"):
			if !validHeaderName(name) {
				return badInput("header", name, "a name of visible ASCII without a colon")
			}
			p.pass(name, header[name])
		case forwarded:
		case formField(name) == 0:
			return badShape("header "+excerpt(name), "is unknown, allowed are "+formHeaders)
		case len(header[name]) != 1:
			return badShape(name, "is given twice, allowed is once")
		default:
			p.form = true
		}
	}
	if !forwarded {
		p.msgID = header.Get(headerMsgID)
	}
	var f *fault
	p.ownBlock, f = checkedHeaders(p.own)
	return f
}

func (p *pushReader) pass(name string, values []string) {
	if p.own == nil {
		p.own = nats.Header{}
	}
	p.own[name] = values
}

// headerJob reads a message in header form.
func (p *pushReader) headerJob(header nats.Header, data []byte) pushed {
	out := pushed{Raw: data}
	out.Job.Raw = true
	d := draft{push: p, out: &out}
	d.given = fieldBody
	d.setBody(data)
	for _, name := range strings.Split(formHeaders, ", ") {
		values := header[name]
		if len(values) == 0 {
			continue
		}
		field := formField(name)
		d.given |= field
		if field == fieldBackoff {
			d.setBackoffList(name, values[0])
		} else {
			d.setScalar(field, name, textScalar(values[0]))
		}
	}
	d.finish(-1)
	return out
}

func textScalar(text string) scalar {
	raw := []byte(text)
	_, number := parseNumber(raw)
	return scalar{text: raw, raw: raw, number: number, str: true}
}

func (d *draft) setBackoffList(name, list string) {
	for pause := range strings.SplitSeq(list, ",") {
		if !d.addPause(name, textScalar(strings.TrimSpace(pause))) {
			return
		}
	}
}

// setHeaders reads the field headers.
func (d *draft) setHeaders(value jsontext.Value) {
	if value.Kind() != jsontext.KindBeginObject {
		d.fail(badInput("headers", string(value), "an object of strings or arrays of strings"))
		return
	}
	d.headers = nats.Header{}
	r := openJSON(value)
	defer r.close()
	_, err := r.dec.ReadToken()
	for err == nil && r.dec.PeekKind() != jsontext.KindEndObject {
		var name []byte
		var held jsontext.Value
		if name, held, err = r.member(); err != nil || !d.addHeader(string(name), held) {
			return
		}
	}
}

func (d *draft) addHeader(name string, value jsontext.Value) bool {
	field := "headers." + excerpt(name)
	_, twice := d.headers[name]
	switch {
	case twice:
		d.fail(badShape(field, "is given twice, allowed is once"))
		return false
	case !validHeaderName(name):
		d.fail(badShape(field, "is no header name, allowed is visible ASCII without a colon"))
		return false
	case hasPrefixFold(name, "Dq-") || hasPrefixFold(name, "Nats-"):
		d.fail(badShape(field, "is reserved, allowed are names that do not begin with Dq- or Nats-"))
		return false
	case len(d.headers) == maxHeaderNames:
		d.fail(tooManyHeaders(len(d.headers) + 1))
		return false
	}
	values, ok := headerValues(value)
	if !ok {
		d.fail(badInput(field, string(value), "a string or an array of strings, without control characters"))
		return false
	}
	d.headers[name] = values
	return true
}

func headerValues(value jsontext.Value) ([]string, bool) {
	switch value.Kind() {
	case jsontext.KindString:
		text := string(unquote(value))
		return []string{text}, !strings.ContainsFunc(text, unicode.IsControl)
	case jsontext.KindBeginArray:
		return headerList(value)
	default:
		return nil, false
	}
}

func headerList(value jsontext.Value) ([]string, bool) {
	r := openJSON(value)
	defer r.close()
	list := []string{}
	_, err := r.dec.ReadToken()
	for err == nil && r.dec.PeekKind() == jsontext.KindString {
		var element jsontext.Value
		element, err = r.dec.ReadValue()
		if err == nil {
			list = append(list, string(unquote(element)))
		}
	}
	control := slices.ContainsFunc(list, func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) })
	return list, err == nil && !control && r.dec.PeekKind() == jsontext.KindEndArray
}

// mergeHeaders puts the job's own headers over those of its message.
func (d *draft) mergeHeaders() {
	if len(d.headers) == 0 {
		d.out.Job.Headers = d.push.ownBlock
		return
	}
	for name, values := range d.push.own {
		if _, ok := d.headers[name]; !ok {
			d.headers[name] = values
		}
	}
	var f *fault
	if d.out.Job.Headers, f = checkedHeaders(d.headers); f != nil {
		d.fail(f)
	}
}

func checkedHeaders(h nats.Header) ([]byte, *fault) {
	if len(h) > maxHeaderNames {
		return nil, tooManyHeaders(len(h))
	}
	block := encodeHeaders(h)
	if len(block) > maxHeaderBytes {
		return nil, tooLarge("headers", len(block), maxHeaderBytes, "bytes with the message's own")
	}
	return block, nil
}

func tooManyHeaders(n int) *fault {
	return tooLarge("headers", n, maxHeaderNames, "names with the message's own")
}

// hasPrefixFold reports whether s begins with prefix, which is ASCII, in any letter case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// validHeaderName reports whether NATS takes name for a header's.
func validHeaderName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	return name != ""
}

// encodeHeaders writes h as lines of "Name: value", sorted by name so that equal headers are equal bytes; nil where
// there are none. Line breaks in a value become blanks and what is no header name is left out, as in nats.go.
func encodeHeaders(h nats.Header) []byte {
	size := 0
	names := make([]string, 0, len(h))
	for name, values := range h {
		if validHeaderName(name) {
			names = append(names, name)
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
	}
	if size == 0 {
		return nil
	}
	slices.Sort(names)
	block := make([]byte, 0, size)
	for _, name := range names {
		for _, value := range h[name] {
			block = append(append(block, name...), ": "...)
			block = append(appendLine(block, value), "\r\n"...)
		}
	}
	return block
}

func appendLine(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(dst, s...)
	if strings.ContainsAny(s, "\r\n") {
		for i, c := range dst[start:] {
			if c == '\r' || c == '\n' {
				dst[start+i] = ' '
			}
		}
	}
	return dst
}

// decodeHeaders reads what encodeHeaders wrote. All names and values share one copy of block.
func decodeHeaders(block []byte) nats.Header {
	lines := bytes.Count(block, []byte("\r\n"))
	if lines == 0 {
		return nil
	}
	h := make(nats.Header, lines)
	values := make([]string, 0, lines)
	for rest := string(block); rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		if held := h[name]; held != nil {
			h[name] = append(held, value)
			continue
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return h
}
