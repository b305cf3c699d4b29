package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// terminal runs what a page tells its reader to type, as it stands there, in a folder with the binary in bin/.
type terminal struct {
	t     *testing.T
	dir   string
	env   []string
	page  *strings.Replacer // the page's hosts, ports and folders → those of the test
	stays *testenv.Process  // the command that has not ended yet
	want  string            // pattern of what stays has to print
}

// typedWithin is how long a command may take, and one that stays until it prints what it has to.
const typedWithin = time.Minute

// newTerminal takes pairs for strings.NewReplacer.
func newTerminal(t *testing.T, env []string, page ...string) *terminal {
	t.Helper()
	path := "PATH=" + testenv.NATSCommand(t) + ":" + os.Getenv("PATH")
	term := &terminal{t: t, dir: t.TempDir(), env: append([]string{path}, env...), page: strings.NewReplacer(page...)}
	bin := filepath.Join(term.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testenv.Build(t), filepath.Join(bin, "dqbridge")); err != nil {
		t.Fatal(err)
	}
	return term
}

// run types a command that ends; it has to succeed, and what it prints has to match.
func (term *terminal) run(typed, want string) {
	term.t.Helper()
	ctx, cancel := context.WithTimeout(term.t.Context(), typedWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", term.page.Replace(typed))
	cmd.Dir, cmd.Env = term.dir, append(os.Environ(), term.env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(want).Match(out) {
		term.t.Fatalf("%s: %v, wanted %s, printed:\n%s", typed, err, want, out)
	}
}

// start types a command that stays, until the next one that does; what it prints before that has to match.
func (term *terminal) start(typed, want string) {
	term.t.Helper()
	term.interrupt()
	line := "cd " + term.dir + " && exec env " + term.page.Replace(typed) // no shell stays between it and its signals
	term.stays, term.want = testenv.StartBinary(term.t, "/bin/sh", term.env, "-c", line), want
}

// interrupt is Ctrl-C, once the command that stays has printed what it has to.
func (term *terminal) interrupt() {
	term.t.Helper()
	if term.stays == nil {
		return
	}
	want := regexp.MustCompile(term.want)
	term.stays.Ready(typedWithin, func() bool { return want.MatchString(term.stays.Stdout() + term.stays.Stderr()) }, term.want)
	term.stays.Signal(syscall.SIGINT)
	term.stays.Wait(typedWithin)
	term.stays = nil
}
