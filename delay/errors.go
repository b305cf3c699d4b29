package delay

import (
	"errors"
	"fmt"
)

// Outcomes of a change of state, compared with errors.Is.
var (
	// ErrNotFound: there is no job with this id.
	ErrNotFound = errors.New("no such job")
	// ErrOtherPush: the id belongs to a later push than the ack.
	ErrOtherPush = errors.New("the id belongs to another push now")
	// ErrOldAttempt: the ack is of an earlier delivery than the present one.
	ErrOldAttempt = errors.New("an older attempt")
	// ErrState: the job is not in a state for this.
	ErrState = errors.New("not in a state for this")
	// ErrLeased: the job is leased for a delivery whose outcome will be known soon; then the verb can be tried again.
	ErrLeased = errors.New("its delivery is not certain yet")
	// ErrPosition: a page is asked for from a place that is none.
	ErrPosition = errors.New("not a position of this listing")
	// ErrOtherTopic: the id is stored under another topic.
	ErrOtherTopic = errors.New("the id is stored under another topic")
	// ErrTooFar: the moment is beyond the longest delay.
	ErrTooFar = errors.New("beyond the longest delay")
	// ErrOverdue: the call waited too long in the queue and was not carried out.
	ErrOverdue = errors.New("waited too long in the queue")
	// ErrBusy: the queue in front of the store is full.
	ErrBusy = errors.New("the queue is full")
	// ErrStopped: the store is being stopped.
	ErrStopped = errors.New("stopping")
	// ErrLayout: the store is of another layout or number of buckets.
	ErrLayout = errors.New("store layout")
	// ErrOldServer: Redis is too old for the scripts.
	ErrOldServer = errors.New("redis server")
)

// UnavailableError says that Redis did not confirm a call.
type UnavailableError struct {
	// Maybe says that the answer was lost: the call may have been carried out.
	Maybe bool
	// Odd says that Redis answered with an error that no outage explains, such as a key of the wrong type.
	Odd   bool
	Cause error
}

func (e *UnavailableError) Error() string {
	if e.Odd {
		return fmt.Sprintf("redis fails: %v", e.Cause)
	}
	if e.Maybe {
		return fmt.Sprintf("answer of redis lost: %v", e.Cause)
	}
	return fmt.Sprintf("redis refuses: %v", e.Cause)
}

func (e *UnavailableError) Unwrap() error { return e.Cause }
