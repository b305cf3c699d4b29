package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Root is the folder of the module's sources.
func Root(tb testing.TB) string {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// NATSCommand is the folder of the `nats` command line client that `make nats` builds.
func NATSCommand(tb testing.TB) string {
	tb.Helper()
	pattern := filepath.Join(Root(tb), ".tools", "nats-*", "nats")
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		tb.Fatalf("no %s (%v): make nats builds it", pattern, err)
	}
	return filepath.Dir(found[len(found)-1])
}

// withoutVariable names programs, with commas between them, whose tests are to be left out. It is for machines where one
// cannot be had; a program that is missing for no such reason fails the test.
const withoutVariable = "TESTS_WITHOUT"

// LeaveOut skips the test where the environment asks to do without a program.
func LeaveOut(tb testing.TB, name string) {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv(withoutVariable), ","), name) {
		tb.Skipf("left out: %s names %s", withoutVariable, name)
	}
}

// Program gives the path of a program that a test needs beside redis-server; hint says how to get it.
func Program(tb testing.TB, name, hint string) string {
	tb.Helper()
	LeaveOut(tb, name)
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("this test needs %s in the PATH (%s), or %s=%s: %v", name, hint, withoutVariable, name, err)
	}
	return path
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	return strings.TrimSpace(string(out)), err
}
