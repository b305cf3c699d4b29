// Command dqbridge is a delay queue between NATS and Redis: it stores jobs in Redis and delivers them over NATS when
// they are due. See `dqbridge help`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/internal/cli"
)

// Exit codes.
const (
	exitFine = iota
	exitFailed
	exitUsage
)

func main() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once. Not the same one twice, though: a terminal, or timeout(1), sends it to
	// the process and to its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	env := cli.Env{
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Redact: config.Redact,
		Colour:      isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "",
		Terminal:    isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stderr) && isatty.IsTerminal(os.Stdin.Fd()),
	}
	os.Exit(report(run(ctx, os.Args[1:], env), os.Stderr))
}

// run is the program without its process.
func run(ctx context.Context, args []string, env cli.Env) error {
	root := newRoot(env) //nolint:contextcheck // cobra hands ctx to the commands

	var called bool // a command took the call: errors before that are about how it was called
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmd.ValidateFlagGroups() // cobra itself checks them too late for that
		called = err == nil
		return err
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !called {
		return &cli.UsageError{Err: fmt.Errorf("%w (see dqbridge --help)", err)}
	}
	return err
}

// report prints an error and gives the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitFine
	}
	_, _ = fmt.Fprintf(stderr, "dqbridge: %v\n", err)
	if cli.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}

const longAbout = `A delay queue between NATS and Redis. Jobs pushed on dq.push are stored in Redis and delivered on dq.ready.<topic> when
they are due, until a worker finishes them.

Without a command it runs the bridge, as serve does. To try it out with nothing installed: dqbridge dev`

func newRoot(env cli.Env) *cobra.Command {
	root := newServe(env)
	root.Use, root.Short, root.Long = "dqbridge", "a delay queue between NATS and Redis", longAbout
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cli.Add(root, env, newServe(env), newDev(env), newCheck(env))
	root.AddCommand(newVersion(env))
	return root
}

func newServe(env cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "run the bridge",
		Long: "Run the bridge until SIGINT or SIGTERM. It is configured by the environment:\n\n" + config.Usage(),
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load()
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			leaveProcessors()
			return serve(cmd.Context(), cfg, env, newLogger(cfg.Log, env.Stderr))
		},
	}
}

// unknownCommand refuses arguments: what looks like one is a mistyped command.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
		return fmt.Errorf("unknown command %q, did you mean %s?", args[0], strings.Join(close, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func newVersion(env cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(env.Stdout, "dqbridge %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// stamp is the version that the linker was told (-X main.stamp=…); empty: none.
var stamp string

// version is what the linker was told, else the module's version as Go stamped it at the build: a tag, or one made of the
// commit.
func version() string {
	if stamp != "" {
		return stamp
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// newLogger logs for people on a terminal and for machines elsewhere, unless the configuration says which.
func newLogger(cfg config.Log, out io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil { // config has checked it
		level = zerolog.InfoLevel
	}
	if cfg.Format == "console" || cfg.Format == "auto" && isTerminal(out) {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05.000", NoColor: !isTerminal(out)}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
