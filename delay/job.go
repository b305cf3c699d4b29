package delay

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of the contract (section 2) on what names a job.
const (
	MaxIDBytes     = 256
	MaxTopicBytes  = 200
	MaxTopicTokens = 16
	MaxBackoff     = 100
)

// State is one of the four states a stored job can be in, or Unknown.
type State string

// A stored job is in exactly one of the first four states.
const (
	Delayed  State = "delayed"
	Ready    State = "ready"
	InFlight State = "inflight"
	Dead     State = "dead"
	Unknown  State = "unknown"
)

// Job is one job as it is pushed. All durations are whole milliseconds.
type Job struct {
	ID    string
	Topic string
	// Delay is how long until the job is due, by Redis's clock; ignored where At is set.
	Delay time.Duration
	// At is the moment the job is due; zero: Delay counts.
	At time.Time
	// TTR is the time to run; zero: the job is gone once it was handed over.
	TTR time.Duration
	// MaxAttempts is the number of deliveries before the job is dead; zero: no limit.
	MaxAttempts int
	// Backoff holds the pauses before the 2nd, 3rd, … delivery; the last one repeats.
	Backoff []time.Duration
	// Expires is how late a first delivery may be; zero: any lateness.
	Expires time.Duration
	// Replace puts this job in the place of a stored one with the same id.
	Replace bool
	// Raw says that Body is not JSON and is delivered verbatim.
	Raw bool
	// Headers are the job's own message headers, encoded by the caller and opaque here.
	Headers []byte
	Body    []byte
	// Origin is the stream message that the push came in; its zero value: none.
	Origin Origin
}

// Origin names the message of a stream that a push came in, or one job of it. The stream may send the message again
// after the job is gone: by its origin the store knows it (seen.go).
type Origin struct {
	// Seq is the message's place in the stream.
	Seq uint64
	// Mark tells the job of the message from those of all others, also where a stream was made anew; empty: no origin.
	Mark string
	// Generated says that the job's id was made of the message's place, so that a stored job with this id is not of the
	// same will: it is that of an older stream of the same name.
	Generated bool
}

// CheckID returns an error that says what is wrong with id, or nil.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("is empty, allowed are 1 to %d bytes", MaxIDBytes)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("has %d bytes, allowed are 1 to %d", len(id), MaxIDBytes)
	case id[0] == ' ' || id[len(id)-1] == ' ':
		return errors.New("begins or ends with a blank, allowed are blanks inside only")
	}
	return checkPrintable(id, true)
}

// CheckTopic returns an error that says what is wrong with topic, or nil.
// What it lets pass is safe as the tail of a NATS subject and as part of a Redis key.
func CheckTopic(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("is empty, allowed are 1 to %d bytes", MaxTopicBytes)
	case len(topic) > MaxTopicBytes:
		return fmt.Errorf("has %d bytes, allowed are 1 to %d", len(topic), MaxTopicBytes)
	case strings.ContainsAny(topic, "*>"):
		return errors.New("holds a wildcard, allowed are all printable characters but * and >")
	case strings.HasPrefix(topic, ".") || strings.HasSuffix(topic, ".") || strings.Contains(topic, ".."):
		return errors.New("holds an empty token, allowed are tokens with single dots between them")
	case strings.Count(topic, ".") >= MaxTopicTokens:
		return fmt.Errorf("has %d tokens, allowed are %d", strings.Count(topic, ".")+1, MaxTopicTokens)
	}
	return checkPrintable(topic, false)
}

func checkPrintable(s string, blanks bool) error {
	for i, r := range s {
		switch {
		case r > ' ' && r < 0x7f, r == ' ' && blanks:
			continue
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return fmt.Errorf("is not valid UTF-8 at byte %d", i)
		case r == ' ':
			return fmt.Errorf("holds a blank at byte %d, allowed are printable characters without white space", i)
		case !visible(r):
			return fmt.Errorf("holds %U at byte %d, allowed are printable characters", r, i)
		}
	}
	return nil
}

// visible reports whether r is a character that a person can see. unicode.IsPrint leaves out control,
// format and space characters; the rest are those that Unicode lets a display ignore, and the blank Braille cell.
func visible(r rune) bool {
	const brailleBlank = 0x2800
	return unicode.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
