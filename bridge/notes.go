package bridge

import (
	"context"
	"strconv"
	"strings"

	"github.com/dqbridge/dqbridge/delay"
)

// ended notes that a flight is over: here, or for the replica that delivered it.
func (r *replicas) ended(f delay.Flight) {
	key := flightKey{f.Bucket, f.Token}
	if f.Owner == r.acks.dispatcher.name() {
		r.acks.dispatcher.end(key)
		return
	}
	if f.Owner == "-" || f.Owner == "" {
		return
	}
	r.jot(r.subjects.note(f.Owner, wordEnded), func(note []byte) []byte { return appendEnded(note, key) })
}

// jot adds a line to the note for a subject. Beyond maxNote lines are lost; what they are for is made good elsewhere.
func (r *replicas) jot(subject string, line func([]byte) []byte) {
	r.notes.Lock()
	if note := r.noted[subject]; len(note) < maxNote {
		r.noted[subject] = line(note)
	}
	r.notes.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// readyElsewhere tells another replica of ready jobs.
func (r *replicas) readyElsewhere(owner string, bucket int, topic string) {
	r.jot(r.subjects.note(owner, wordReady), func(note []byte) []byte {
		note = append(strconv.AppendInt(note, int64(bucket), 10), ' ')
		return append(append(note, topic...), '\n')
	})
}

// announce tells the other replicas of topics that pops wait for here.
func (r *replicas) announce(names []string) {
	if len(names) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if s.Number == r.slot || !s.Alive() {
			continue
		}
		subject := r.subjects.note(owner{s.Number, s.Process}.String(), wordWaiting) + "." + owner{r.slot, r.process}.String()
		for _, name := range names {
			r.jot(subject, func(note []byte) []byte { return append(append(note, name...), '\n') })
		}
	}
}

// tell sends what was noted for other replicas. A note that is lost is made good by their own looks at Redis.
func (r *replicas) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.notes.Lock()
		noted := r.noted
		r.noted = make(map[string][]byte)
		r.notes.Unlock()
		for subject, note := range noted {
			_ = r.link.Publish(subject, note) // see above
		}
	}
}

// A note that flights ended has "<bucket> <token>" on each line.
func appendEnded(note []byte, key flightKey) []byte {
	note = strconv.AppendInt(note, int64(key.bucket), 10)
	note = append(note, ' ')
	return append(strconv.AppendUint(note, key.token, 10), '\n')
}

func parseEnded(note []byte) []flightKey {
	var keys []flightKey
	for line := range strings.Lines(string(note)) {
		bucket, token, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		b, err1 := strconv.Atoi(bucket)
		n, err2 := strconv.ParseUint(token, 10, 64)
		if err1 == nil && err2 == nil {
			keys = append(keys, flightKey{b, n})
		}
	}
	return keys
}
