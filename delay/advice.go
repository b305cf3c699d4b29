package delay

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/tlsadvice"
)

// ErrDenied says that Redis is there and that its ACL keeps the bridge's user from what it must do.
var ErrDenied = errors.New("redis's ACL denies the user of DQ_REDIS_URL a command or a key that it needs, " +
	"docs/redis-users.conf has all of them")

var (
	errWrongPassword = errors.New("redis refuses the user or the password of DQ_REDIS_URL")
	errNoPassword    = errors.New("redis wants a user or a password, DQ_REDIS_URL must have it")
)

// MisfitError is an error of Redis that ends only when an operator changes something; Advice says what.
type MisfitError struct {
	Advice error
	cause  error
}

// Error implements error.
func (e *MisfitError) Error() string { return e.Advice.Error() + ": " + e.cause.Error() }

// Unwrap gives both, so that errors.Is finds ErrDenied.
func (e *MisfitError) Unwrap() []error { return []error{e.Advice, e.cause} }

// advised tells an error that an operator must mend from one that passes by itself.
func advised(err error) error {
	if reason := replyReason(err); reason != nil {
		return &MisfitError{Advice: reason, cause: err}
	}
	if advice := tlsadvice.For(err, "DQ_REDIS_"); advice != "" {
		return &MisfitError{Advice: errors.New(advice), cause: err}
	}
	return err
}

// replyReason knows the replies that are no matter of time.
func replyReason(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return nil
	}
	text := reply.Error()
	switch {
	case strings.HasPrefix(text, "WRONGPASS "):
		return errWrongPassword
	case strings.HasPrefix(text, "NOAUTH "):
		return errNoPassword
	case strings.HasPrefix(text, "NOPERM "), deniedInside(text):
		return ErrDenied
	}
	return nil
}

// deniedInside knows what Redis 7.0, and a later one, say of a command that a script must not use: what the script did
// before it stays done.
func deniedInside(text string) bool {
	return strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
}
