package bridge

import (
	"errors"

	"github.com/dqbridge/dqbridge/delay"
)

// reason is why a request was refused, as the metrics tell it: one of few words, whatever the request held.
type reason string

const (
	// reasonMalformed: a field or message is wrong as a whole. reasonValue: a field holds what is not allowed.
	reasonMalformed reason = "malformed"
	reasonValue     reason = "value"
	reasonTooLarge  reason = "too_large"
	reasonTooFar    reason = "too_far"
	reasonNotFound  reason = "not_found"
	// reasonNoJob: a pop found none. reasonPaused: its topic is paused.
	reasonNoJob      reason = "no_job"
	reasonPaused     reason = "paused"
	reasonState      reason = "state"
	reasonAttempt    reason = "attempt"
	reasonOtherPush  reason = "other_push"
	reasonOtherTopic reason = "other_topic"
	// reasonBusy: too much waits already. reasonOverdue: it waited too long itself. reasonLeaving: the replica goes, or
	// does not serve yet.
	reasonBusy    reason = "busy"
	reasonOverdue reason = "overdue"
	reasonLeaving reason = "leaving"
	// reasonRedis: Redis took nothing. reasonUnconfirmed: its answer was lost.
	reasonRedis       reason = "redis"
	reasonUnconfirmed reason = "unconfirmed"
	reasonOther       reason = "other"
)

// reasonOf gives the reason for an error of the store.
func reasonOf(err error) reason {
	for _, known := range []struct {
		err    error
		reason reason
	}{
		{delay.ErrNotFound, reasonNotFound},
		{delay.ErrState, reasonState},
		{delay.ErrOldAttempt, reasonAttempt},
		{delay.ErrOtherPush, reasonOtherPush},
		{delay.ErrOtherTopic, reasonOtherTopic},
		{delay.ErrTooFar, reasonTooFar},
		{delay.ErrBusy, reasonBusy},
		{delay.ErrOverdue, reasonOverdue},
		{delay.ErrStopped, reasonLeaving},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	var away *delay.UnavailableError
	switch {
	case errors.As(err, &away) && away.Maybe:
		return reasonUnconfirmed
	case errors.As(err, &away):
		return reasonRedis
	}
	return reasonOther
}

// rejection is a code of an answer with a reason that it may have.
type rejection struct {
	code   int
	reason reason
}

// rejections are those that are counted from the start, so that the first of each is seen as an increase.
func rejections() []rejection {
	var all []rejection
	for code, reasons := range map[int][]reason{
		400: {reasonMalformed, reasonValue, reasonTooFar},
		404: {reasonNotFound, reasonNoJob, reasonPaused},
		409: {reasonState, reasonAttempt, reasonOtherPush, reasonOtherTopic},
		413: {reasonTooLarge},
		503: {reasonBusy, reasonOverdue, reasonLeaving, reasonRedis, reasonUnconfirmed},
	} {
		for _, why := range reasons {
			all = append(all, rejection{code, why})
		}
	}
	return all
}
