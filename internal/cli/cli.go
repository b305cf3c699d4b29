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
	Terminal       bool                // Stdout is a terminal
	Interactive    bool                // somebody sees Stderr and can answer on Stdin
}

// The groups of commands in the help.
const (
	groupRun     = "run"
	groupJobs    = "jobs"
	groupOperate = "operate"
)

// Add adds all client commands to the program. own are its other commands, which run the bridge.
func Add(root *cobra.Command, env Env, own ...*cobra.Command) {
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{groupRun, "Run the bridge, and look after its store:", own},
		{groupJobs, "Push jobs and work on them:", []*cobra.Command{
			newPush(env), newPop(env), newFinish(env), newTouch(env), newRelease(env), newBury(env), newWatch(env),
		}},
		{groupOperate, "Look at what is stored and change it:", []*cobra.Command{
			newStats(env), newTopics(env), newList(env), newGet(env), newCancel(env), newRun(env), newReschedule(env),
			newKick(env), newPause(env), newResume(env), newPurge(env), newBench(env),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
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
