package bridge

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// Subjects, all under the prefix ("dq" below):
//
//	dq.push, dq.push.<topic>     jobs in
//	dq.ready.<topic>             jobs out
//	dq.pop.<topic>               one job out, on request
//	dq.finish, dq.touch, dq.release, dq.bury      verbs by id
//	dq.admin.<verb>              look at and change what is stored
//	dq.ack.<slot>.<process>.<push>.<token>.<id>   the reply subject of one delivery; ids as appendID writes them
//	dq.ack.<slot>.<process>.barrier.<number>      a replica to itself: all it published before has been taken
//	dq.ack.<slot>.<process>.ended                 another replica to it: these flights are over, "<bucket> <token>" a line
//	dq.ack.<slot>.<process>.waiting.<slot>.<process>  another replica to it: pops wait there for these topics, one a line
//	dq.ack.<slot>.<process>.ready                 another replica to it: ready jobs, "<bucket> <topic>" a line
//	dq.ack.<slot>.<process>.taken.<slot>          another replica to it: it takes the acks of this slot itself
//	dq.ack.<slot>.<process>.look                  another replica to it: it leaves, and watches no buckets any more
//	dq.ack.<slot>.<process>.figures               another replica, as a request: what went through it (peers.go)
//	dq.event.<what>              advisories
const (
	wordBarrier = "barrier"
	wordEnded   = "ended"
	wordWaiting = "waiting"
	wordReady   = "ready"
	wordTaken   = "taken"
	wordLook    = "look"
	wordFigures = "figures"
)

// Headers of the messages that the bridge sends.
const (
	headerID        = "Dq-Id"
	headerTopic     = "Dq-Topic"
	headerAttempt   = "Dq-Attempt"
	headerDueAt     = "Dq-Due-At"
	headerTTR       = "Dq-Ttr"
	headerAck       = "Dq-Ack"
	headerReason    = "Dq-Reason"
	headerError     = "Dq-Error"
	headerErrorCode = "Dq-Error-Code"
	headerIndex     = "Dq-Index"
	headerTruncated = "Dq-Truncated"
	headerMsgID     = "Nats-Msg-Id"

	headerServiceError     = "Nats-Service-Error"
	headerServiceErrorCode = "Nats-Service-Error-Code"
)

// subjects builds and reads the subjects under one prefix.
type subjects struct{ prefix string }

func (s subjects) push() string              { return s.prefix + ".push" }
func (s subjects) pushes() string            { return s.prefix + ".push.>" }
func (s subjects) verb(verb string) string   { return s.prefix + "." + verb }
func (s subjects) pop() string               { return s.prefix + ".pop.>" }
func (s subjects) admin(verb string) string  { return s.prefix + ".admin." + verb }
func (s subjects) ready(topic string) string { return s.prefix + ".ready." + topic }
func (s subjects) event(what string) string  { return s.prefix + ".event." + what }

// acks is where the answers to the deliveries of a slot go.
func (s subjects) acks(slot int) string { return s.prefix + ".ack." + strconv.Itoa(slot) + ".>" }

// pushTopic gives the topic of a push subject, empty for dq.push itself.
func (s subjects) pushTopic(subject string) string {
	return strings.TrimPrefix(strings.TrimPrefix(subject, s.push()), ".")
}

// owner names a replica by its slot and process; it is what stands between "dq.ack." and the rest.
type owner struct {
	slot    int
	process string
}

func (o owner) String() string { return strconv.Itoa(o.slot) + "." + o.process }

func (s subjects) ack(owner, id string, push, token uint64) string {
	b := make([]byte, 0, len(s.prefix)+len(owner)+len(id)+56)
	b = append(b, s.prefix...)
	b = append(b, ".ack."...)
	b = append(b, owner...)
	b = append(b, '.')
	b = strconv.AppendUint(b, push, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, token, 10)
	b = append(b, '.')
	return string(appendID(b, id))
}

func (s subjects) barrier(owner string, number uint64) string {
	return s.prefix + ".ack." + owner + "." + wordBarrier + "." + strconv.FormatUint(number, 10)
}

func (s subjects) note(owner, word string) string { return s.prefix + ".ack." + owner + "." + word }

// ackSubject is an ack subject taken apart. word is set for a barrier or a note, and then id holds its rest.
type ackSubject struct {
	owner       string
	word        string
	push, token uint64
	id          string
}

var errAckSubject = errors.New("not an ack subject")

func (s subjects) parseAck(subject string) (ackSubject, error) {
	rest, ok := strings.CutPrefix(subject, s.prefix+".ack.")
	if !ok {
		return ackSubject{}, errAckSubject
	}
	slot, rest, _ := strings.Cut(rest, ".")
	process, rest, found := strings.Cut(rest, ".")
	if !found {
		return ackSubject{}, errAckSubject
	}
	a := ackSubject{owner: subject[len(s.prefix)+len(".ack.") : len(subject)-len(rest)-1]}
	if slot == "" || process == "" {
		return ackSubject{}, errAckSubject
	}
	first, rest, _ := strings.Cut(rest, ".")
	switch first {
	case wordBarrier, wordEnded, wordWaiting, wordReady, wordTaken, wordLook, wordFigures:
		a.word, a.id = first, rest
		return a, nil
	}
	token, id, _ := strings.Cut(rest, ".")
	var errs [3]error
	a.push, errs[0] = strconv.ParseUint(first, 10, 64)
	a.token, errs[1] = strconv.ParseUint(token, 10, 64)
	a.id, errs[2] = decodeID(id)
	if errors.Join(errs[:]...) != nil || a.push == 0 || a.token == 0 {
		return ackSubject{}, errAckSubject
	}
	return a, nil
}

// An id is one token of a subject: as it is behind a "-" where it has only letters, digits, - and _, else in base64
// behind a "=".
func appendID(b []byte, id string) []byte {
	if plainToken(id) {
		return append(append(b, '-'), id...)
	}
	return base64.RawURLEncoding.AppendEncode(append(b, '='), []byte(id))
}

func decodeID(token string) (string, error) {
	switch {
	case strings.HasPrefix(token, "-") && plainToken(token[1:]):
		return token[1:], nil
	case strings.HasPrefix(token, "="):
		id, err := base64.RawURLEncoding.DecodeString(token[1:])
		return string(id), err
	}
	return "", errAckSubject
}

func plainToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}
