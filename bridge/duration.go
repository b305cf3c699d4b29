package bridge

import (
	"math"
	"strconv"
	"time"
)

// scalar is the value of a field that is one number or one string, out of JSON or out of a header.
// A header's text that reads as a number is both.
type scalar struct {
	text   []byte // a string's text without quotes and escapes, a number's digits
	raw    []byte // as it came, for faults
	number bool
	str    bool
}

// duration reads a delay: a number of seconds or a duration string, rounded up to the millisecond. Negative is 0.
func (l limits) duration(field string, v scalar) (time.Duration, *fault) {
	ms, ok := v.millis()
	if !ok {
		return 0, badInput(field, string(v.raw), `a number of seconds or a duration such as "1m30s", up to `+l.longest())
	}
	if ms > l.MaxDelay.Milliseconds() {
		return 0, badInput(field, string(v.raw), "up to "+l.longest()+": a length of time, as a number in seconds"+hint(field))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (l limits) longest() string {
	return strconv.FormatFloat(l.MaxDelay.Seconds(), 'f', -1, 64) + " seconds (" + l.MaxDelay.String() + ")"
}

// hint helps who took a delay for a moment, the usual reason of one that is too long.
func hint(field string) string {
	switch field {
	case "delay":
		return " relative to the push; a moment goes into at"
	case "Dq-Delay":
		return " relative to the push; a moment goes into Dq-At"
	}
	return ""
}

func (v scalar) millis() (int64, bool) {
	switch {
	case v.number:
		return secondsToMillis(v.text)
	case v.str:
		return durationToMillis(string(v.text))
	}
	return 0, false
}

// moment reads an RFC 3339 string or Unix seconds, rounded up to the millisecond. What is before 1970 becomes
// 1970, as both are long due and the store counts from there.
func (v scalar) moment(field string) (time.Time, *fault) {
	const last = 253402300799999 // the last millisecond of the year 9999, where RFC 3339 ends
	ms, ok := v.unixMillis()
	if !ok || ms > last {
		return time.Time{}, badInput(field, string(v.raw),
			`an RFC 3339 moment such as "2030-01-31T08:00:00Z" or a number of Unix seconds, up to the year 9999`)
	}
	return time.UnixMilli(max(ms, 0)).UTC(), nil
}

func (v scalar) unixMillis() (int64, bool) {
	if v.number {
		return secondsToMillis(v.text)
	}
	// Package time is laxer than RFC 3339: it also takes one-digit hours and a comma before the fraction.
	const hour, fraction = len("2006-01-02T"), len("2006-01-02T15:04:05")
	var t time.Time
	if !v.str || t.UnmarshalText(v.text) != nil || v.text[hour+1] == ':' || v.text[fraction] == ',' {
		return 0, false
	}
	ms := t.UnixMilli()
	if t.Sub(time.UnixMilli(ms)) > 0 {
		ms++
	}
	return ms, true
}

// count reads an integer from 0 to limit; 5.0 and 1e1 are integers too.
func (v scalar) count(field string, limit int64) (int, *fault) {
	if v.number {
		n, ok := parseNumber(v.text)
		value, exact := n.scaled(0)
		if ok && exact && value <= limit && (value == 0 || !n.negative) {
			return int(value), nil
		}
	}
	return 0, badInput(field, string(v.raw), "a whole number from 0 to "+strconv.FormatInt(limit, 10))
}

// durationToMillis reads a Go duration, rounded up. Negative is 0.
func durationToMillis(text string) (int64, bool) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, false
	}
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return max(ms, 0), true
}

// secondsToMillis reads a number of seconds, rounded up, math.MaxInt64 where it is more than that.
// Negative is 0, however large.
func secondsToMillis(text []byte) (int64, bool) {
	const milli = 3
	return scaleUp(text, milli)
}

// nanosToMillis is the same for a number of nanoseconds.
func nanosToMillis(text []byte) (int64, bool) {
	const nanoToMilli = -6
	return scaleUp(text, nanoToMilli)
}

func scaleUp(text []byte, shift int64) (int64, bool) {
	n, ok := parseNumber(text)
	if !ok || n.negative {
		return 0, ok
	}
	value, exact := n.scaled(shift)
	if !exact {
		value++
	}
	return value, true
}

// number is a JSON number by its decimal text. It is never a float64: 1.1 s is 1100 ms and not 1101.
type number struct {
	negative bool
	whole    []byte
	fraction []byte
	exponent int64
}

// parseNumber takes apart text if it is a JSON number and nothing else.
func parseNumber(text []byte) (number, bool) {
	var n number
	text, n.negative = cutSign(text, "-")
	n.whole, text = cutDigits(text)
	if len(n.whole) == 0 || len(n.whole) > 1 && n.whole[0] == '0' {
		return n, false
	}
	if len(text) > 0 && text[0] == '.' {
		n.fraction, text = cutDigits(text[1:])
		if len(n.fraction) == 0 {
			return n, false
		}
	}
	if len(text) > 0 && (text[0] == 'e' || text[0] == 'E') {
		signless, negative := cutSign(text[1:], "+-")
		digits, rest := cutDigits(signless)
		n.exponent = exponent(digits, negative)
		return n, len(digits) > 0 && len(rest) == 0
	}
	return n, len(text) == 0
}

// exponent stops far beyond what any number of digits in a message can make up for, so that sums with it
// cannot overflow.
func exponent(digits []byte, negative bool) int64 {
	const enough = 1e15
	var value int64
	for _, c := range digits {
		if value < enough {
			value = value*10 + int64(c-'0')
		}
	}
	if negative {
		return -value
	}
	return value
}

// cutSign cuts one byte of signs off text and reports whether it is a minus.
func cutSign(text []byte, signs string) ([]byte, bool) {
	for i := range len(signs) {
		if len(text) > 0 && text[0] == signs[i] {
			return text[1:], signs[i] == '-'
		}
	}
	return text, false
}

// cutDigits returns the digits that text begins with, and the rest.
func cutDigits(text []byte) ([]byte, []byte) {
	i := 0
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return text[:i], text[i:]
}

// scaled returns the number without its sign times 10^shift, its fraction cut off, and whether that is exact.
// math.MaxInt64 stands for all that does not fit. The work is linear in the digits, whatever the exponent.
func (n *number) scaled(shift int64) (int64, bool) {
	point := int64(len(n.whole)) + n.exponent + shift // so many digits are left of the result's decimal point
	digits := int64(len(n.whole) + len(n.fraction))
	var value int64
	for at := int64(0); at < point && (at < digits || value > 0); at++ {
		if value >= math.MaxInt64/10 {
			return math.MaxInt64, true
		}
		value = value*10 + n.digit(at)
	}
	for at := max(point, 0); at < digits; at++ {
		if n.digit(at) != 0 {
			return value, false
		}
	}
	return value, true
}

// digit returns a digit by its place, 0 behind the last one.
func (n *number) digit(at int64) int64 {
	whole := int64(len(n.whole))
	switch {
	case at < whole:
		return int64(n.whole[at] - '0')
	case at-whole < int64(len(n.fraction)):
		return int64(n.fraction[at-whole] - '0')
	}
	return 0
}
