// Package cli holds the commands that are clients of the bridge: thin, over NATS alone, made of what any user's
// program could do as well.
package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// Env is what the commands take from their process.
type Env struct {
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Now            func() time.Time
	Redact         func(string) string // makes a URL fit for an error
	Colour         bool                // Stdout is a terminal that shows colours
}

// Commands are all client commands.
func Commands(env Env) []*cobra.Command {
	return []*cobra.Command{newPush(env), newWatch(env), newBench(env)}
}

// UsageError means that a command was called wrongly, and did nothing.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// IsUsage says whether the user has to change the call, not the world.
func IsUsage(err error) bool {
	var usage *UsageError
	return errors.As(err, &usage)
}

func usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}
