// Package examples_test runs the examples of every language to their end, each against a `dqbridge dev` of its own.
package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// language is one set of examples, ready to run.
type language struct {
	command []string // a name of the five is appended
	dir     string
	path    string // goes before PATH
	prints  func(attempt, body string) string
}

// printed is what all but the shell print of a delivery, as a pattern.
func printed(attempt, body string) string {
	return `(?m)^job \S+, attempt ` + attempt + `, \S+( ms)? after it was due, body ` + regexp.QuoteMeta(body) + `$`
}

func TestGo(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "example")
	must(t, ".", "go", "build", "-o", program, "./go")
	run(t, language{command: []string{program}, prints: printed})
}

func TestNode(t *testing.T) {
	t.Parallel()
	testenv.LeaveOut(t, "node")
	dir := copied(t, "node")
	install(t, "node", dir, "npm", "ci", "--no-audit", "--no-fund")
	run(t, language{command: []string{"node", "dq.mjs"}, dir: dir, prints: printed})
}

func TestPython(t *testing.T) {
	t.Parallel()
	dir := copied(t, "python")
	if _, err := exec.LookPath("python3"); err == nil { // what can be tried without its library
		must(t, dir, "python3", "-m", "py_compile", "dq.py")
	}
	testenv.LeaveOut(t, "python")
	install(t, "python", dir, "python3", "-m", "venv", "venv")
	install(t, "python", dir, "venv/bin/pip", "install", "--disable-pip-version-check", "-r", "requirements.txt")
	run(t, language{command: []string{filepath.Join(dir, "venv/bin/python3"), "dq.py"}, dir: dir, prints: printed})
}

func TestShell(t *testing.T) {
	t.Parallel()
	testenv.LeaveOut(t, "shell")
	run(t, language{
		command: []string{"sh", "shell/dq.sh"}, path: testenv.NATSCommand(t),
		prints: func(attempt, body string) string {
			return `(?m)^{"id":.*"body":` + regexp.QuoteMeta(body) + `,"attempt":` + attempt + `,.*}$`
		},
	})
}

// install runs a command that fetches what an example needs.
func install(t *testing.T, name, dir string, line ...string) {
	t.Helper()
	if _, err := output(command(t, dir, line...)); err != nil {
		t.Fatalf("%v\nWhere this cannot be had, TESTS_WITHOUT=%s leaves the example out.", err, name)
	}
}

// run runs the five in turn and looks at what they print, and at the store after them.
func run(t *testing.T, lang language) {
	t.Helper()
	dev := testenv.StartDev(t)
	first, again := lang.prints("1", `""`), lang.prints("2", `""`)
	for _, step := range []struct {
		args []string
		want []string // patterns, each once, in this order
	}{
		{[]string{"push"}, []string{`pushed|"code":200`}},
		{[]string{"work", "1"}, []string{lang.prints("1", `{"to":"ann@example.org"}`)}},
		{[]string{"nak"}, []string{first, again}},
		{[]string{"debounce"}, []string{`replaced"?.true`, `replaced"?.true`, lang.prints("1", "3")}},
		{[]string{"pull"}, []string{first}},
	} {
		out := lang.run(t, dev, step.args...)
		rest := out
		for _, pattern := range step.want {
			at := regexp.MustCompile(pattern).FindStringIndex(rest)
			if at == nil {
				t.Fatalf("%v: no %s in\n%s", step.args, pattern, out)
			}
			rest = rest[at[1]:]
		}
		if strings.Count(out, `attempt`) != strings.Count(strings.Join(step.want, "\n"), `attempt`) {
			t.Errorf("%v: more deliveries than expected:\n%s", step.args, out)
		}
	}
	var stats struct {
		Data struct{ Delayed, Ready, Inflight, Dead *int }
	}
	if err := json.Unmarshal(must(t, ".", testenv.Build(t), "stats", "--json", "--nats", dev.NATSURL), &stats); err != nil {
		t.Fatal(err)
	}
	for _, count := range []*int{stats.Data.Delayed, stats.Data.Ready, stats.Data.Inflight, stats.Data.Dead} {
		if count == nil || *count != 0 {
			t.Errorf("jobs are left: %+v", stats)
		}
	}
}

// run runs one example and gives what it printed on standard output.
func (l language) run(t *testing.T, dev *testenv.Dev, args ...string) string {
	t.Helper()
	line := slices.Concat(l.command, args)
	cmd := command(t, l.dir, line...)
	cmd.Env = append(cmd.Environ(), "NATS_URL="+dev.NATSURL, "PATH="+l.path+":"+os.Getenv("PATH"))
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// must runs a command that has to succeed.
func must(t *testing.T, dir string, line ...string) []byte {
	t.Helper()
	out, err := output(command(t, dir, line...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func command(t *testing.T, dir string, line ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // npm and pip download, go builds
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	return cmd
}

// output is what a command prints; its error has all that it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return out, err
}

// copied is a copy of an example's folder, so that what is installed there is not left beside the sources.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(name)); err != nil {
		t.Fatal(err)
	}
	return dir
}
