package delay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A record is a header line, then the encoded message headers, then the body:
//
//	1 <topic> <push> <pushed, ms> <due, ms> <ttr, ms>[ m<attempts>][ e<expires, ms>][ b<ms>,…][ h<bytes of headers>][ r]\n
//
// Flags follow the version: o the body is kept in bodies, e there is an expiry (in this order). The option r says that the
// body is not JSON. The version and the topic are the first two
// fields in every version, so that a replica of an older one can still promote what it cannot read.
// A new option needs no new version: who does not know its letter passes it over and keeps it, in Go and in the scripts. A
// new flag, or another meaning of a field, does: older replicas then leave such a record alone and say so.
// Upgrade steps: none yet, 1 is the first version.
const (
	recordVersion = "1"
	flagOutside   = "o"
	flagExpires   = "e"
	// maxInline is the largest body kept in the record: scripts that read a record copy it.
	maxInline = 4096
)

// Delivery is one job leased for a delivery.
type Delivery struct {
	Job
	Bucket int
	// Push tells the pushes of one id apart, Token the deliveries of a bucket; both only ever grow.
	Push, Token uint64
	// Attempt is the number of this delivery from 1 within the present budget; Serial the same over all budgets.
	Attempt, Serial int
	// Before is how the delivery before this one ended; empty: this is the first within the present budget.
	Before Ending
	// PushedAt and DueAt are of the push; a redelivery keeps them.
	PushedAt, DueAt time.Time
	// Next is when a delivery that was leased ahead of its time is due, by the bucket's clock; zero: it is due.
	Next time.Time
	// Lease is what Confirm and Return take, but for the TTR.
	Lease Lease
}

// tailSize is about how long the end of a job's record is.
func tailSize(j *Job) int {
	const own = 64
	if len(j.Body) > maxInline {
		return own + len(j.Headers)
	}
	return own + len(j.Headers) + len(j.Body)
}

// appendTail writes the end of a job's record, which the push script completes, and gives the body to keep beside it.
func appendTail(tail []byte, j *Job) ([]byte, []byte) {
	tail = strconv.AppendInt(tail, j.TTR.Milliseconds(), 10)
	tail = appendOption(tail, 'm', int64(j.MaxAttempts))
	tail = appendOption(tail, 'e', j.Expires.Milliseconds())
	for i, pause := range j.Backoff {
		if i == 0 {
			tail = append(tail, " b"...)
		} else {
			tail = append(tail, ',')
		}
		tail = strconv.AppendInt(tail, pause.Milliseconds(), 10)
	}
	tail = appendOption(tail, 'h', int64(len(j.Headers)))
	if j.Raw {
		tail = append(tail, " r"...)
	}
	tail = append(tail, '\n')
	tail = append(tail, j.Headers...)
	if len(j.Body) > maxInline {
		return tail, j.Body
	}
	return append(tail, j.Body...), nil
}

func appendOption(tail []byte, letter byte, value int64) []byte {
	if value == 0 {
		return tail
	}
	tail = append(tail, ' ', letter)
	return strconv.AppendInt(tail, value, 10)
}

// isOutside reports whether the body of a record is kept beside it.
func isOutside(record string) bool {
	flags, known := strings.CutPrefix(record, recordVersion)
	return known && strings.HasPrefix(flags, flagOutside)
}

// decodeRecord fills d from a record and the body kept beside it. Of a format that is not known it takes the topic alone.
func decodeRecord(d *Delivery, record, outside string) error {
	at := strings.IndexByte(record, '\n')
	if at < 0 {
		return fmt.Errorf("decode record of job %s: no header line", d.ID)
	}
	head, rest := record[:at], record[at+1:]
	version, head := nextField(head)
	d.Topic, head = nextField(head)
	flags, known := strings.CutPrefix(version, recordVersion)
	if !known || strings.Trim(flags, flagOutside+flagExpires) != "" {
		return fmt.Errorf("decode record of job %s: format %.10q is not known to this version", d.ID, version)
	}
	var numbers [4]int64
	for i := range numbers {
		var text string
		text, head = nextField(head)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("decode record of job %s: field %d: %w", d.ID, i+3, err)
		}
		numbers[i] = n
	}
	d.Push = uint64(numbers[0])
	d.PushedAt, d.DueAt = time.UnixMilli(numbers[1]), time.UnixMilli(numbers[2])
	d.Delay = d.DueAt.Sub(d.PushedAt)
	d.TTR = millis(numbers[3])
	headers, err := decodeOptions(d, head)
	if err != nil {
		return err
	}
	if headers > len(rest) {
		return fmt.Errorf("decode record of job %s: headers of %d bytes in %d", d.ID, headers, len(rest))
	}
	d.Headers = []byte(rest[:headers])
	d.Body = []byte(rest[headers:])
	if strings.Contains(flags, flagOutside) {
		d.Body = []byte(outside)
	}
	return nil
}

// decodeOptions fills d from the options of a header line and gives how many bytes the message headers take.
func decodeOptions(d *Delivery, options string) (int, error) {
	headers := 0
	for options != "" {
		var option string
		option, options = nextField(options)
		if option == "" {
			continue
		}
		var err error
		switch option[0] {
		case 'b':
			err = decodeBackoff(d, option[1:])
		case 'r':
			d.Raw = true
		default:
			err = decodeNumber(d, option, &headers)
		}
		if err != nil {
			return 0, fmt.Errorf("decode record of job %s: option %.20q: %w", d.ID, option, err)
		}
	}
	return headers, nil
}

// decodeNumber takes in an option that has a number; a letter that is not known is passed over, whatever follows it.
func decodeNumber(d *Delivery, option string, headers *int) error {
	if !strings.ContainsRune("meh", rune(option[0])) {
		return nil
	}
	n, err := strconv.ParseInt(option[1:], 10, 64)
	switch option[0] {
	case 'm':
		d.MaxAttempts = int(n)
	case 'e':
		d.Expires = millis(n)
	case 'h':
		*headers = int(n)
	}
	return err
}

func decodeBackoff(d *Delivery, list string) error {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		d.Backoff = append(d.Backoff, millis(n))
	}
	return nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// nextField cuts s at its first blank, which is in neither part.
func nextField(s string) (string, string) {
	at := strings.IndexByte(s, ' ')
	if at < 0 {
		return s, ""
	}
	return s[:at], s[at+1:]
}
