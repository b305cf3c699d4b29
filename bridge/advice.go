package bridge

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/tlsadvice"
)

// misfitError is an error of NATS that ends only when an operator changes something.
type misfitError struct {
	advice string
	cause  error
}

func (e *misfitError) Error() string { return e.advice + ": " + e.cause.Error() }

func (e *misfitError) Unwrap() error { return e.cause }

// advised tells an error that an operator must mend from one that passes by itself, and says what to change.
func advised(err error) error {
	if advice := adviceFor(err); advice != "" {
		return &misfitError{advice, err}
	}
	return err
}

func adviceFor(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return "nats no longer takes the user of DQ_NATS_CREDS, it must be written anew"
	case errors.Is(err, nats.ErrAuthorization):
		return "nats refuses the user, password or token of DQ_NATS_URL, or the key of DQ_NATS_CREDS or DQ_NATS_NKEY"
	case errors.Is(err, nats.ErrSecureConnRequired):
		return "nats wants TLS, DQ_NATS_URL must begin with tls:// or DQ_NATS_CA name a file"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "nats has no TLS on this port, DQ_NATS_URL or the files beside it ask for it"
	}
	if advice := tlsadvice.For(err, "DQ_NATS_"); advice != "" || !errors.Is(err, nats.ErrTLS) {
		return advice
	}
	return "nats ends the connection right after the TLS handshake, as it does where it wants a client certificate: " +
		"DQ_NATS_CERT and DQ_NATS_KEY must name one that it takes"
}
