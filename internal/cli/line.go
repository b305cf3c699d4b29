package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
)

// kind colours a line.
type kind string

// ANSI colours of what a line is about.
const (
	neutral kind = "36" // cyan
	good    kind = "32" // green
	bad     kind = "31" // red
)

// line is one line of watch: what, and what belongs to it.
type line struct {
	kind kind
	name string
	tail []string
}

func (l line) text(now time.Time, colour bool) string {
	clock, name := now.Format("15:04:05.000"), fmt.Sprintf("%-20s", plain(l.name))
	if colour {
		clock, name = "\x1b[2m"+clock+"\x1b[0m", "\x1b["+string(l.kind)+"m"+name+"\x1b[0m"
	}
	parts := []string{clock, name}
	for _, part := range l.tail {
		parts = append(parts, plain(part))
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

func eventLine(msg *nats.Msg, prefix string) line {
	l := line{kind: neutral, name: strings.TrimPrefix(msg.Subject, prefix)}
	what, _, _ := strings.Cut(l.name, ".")
	switch what {
	case "dead", "rejected":
		l.kind = bad
	case "finished":
		l.kind = good
	}
	var headers []string
	for name, values := range msg.Header {
		headers = append(headers, name+"="+strings.Join(values, ","))
	}
	slices.Sort(headers)
	l.tail = slices.Concat(headers, []string{shorten(msg.Data)})
	return l
}

func jobLine(msg *nats.Msg, now time.Time) line {
	d, err := client.ParseDelivery(msg)
	if err != nil {
		return line{kind: bad, name: msg.Subject, tail: []string{err.Error(), shorten(msg.Data)}}
	}
	late := now.Sub(d.DueAt)
	tail := fmt.Sprintf("%.1f ms late", float64(late.Microseconds())/1000)
	if late >= time.Second {
		tail = late.Round(time.Millisecond).String() + " late"
	}
	if d.Attempt > 1 { // the due time stays the first one, so this is no lateness
		tail = fmt.Sprintf("attempt %d, %v after it was due", d.Attempt, late.Round(time.Millisecond))
	}
	return line{kind: good, name: d.Topic, tail: []string{d.ID, tail, shorten(d.Body)}}
}

// shorten keeps a body to one line.
func shorten(body []byte) string {
	const longest = 200
	if !utf8.Valid(body) {
		return fmt.Sprintf("(%d bytes)", len(body))
	}
	if len(body) <= longest {
		return string(body)
	}
	cut := longest
	for !utf8.RuneStart(body[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", body[:cut], len(body))
}

// plain takes the teeth out of a text from elsewhere: a terminal obeys control characters.
func plain(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return out.String()
}
