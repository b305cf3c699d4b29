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

// LeaveOut skips the test where TESTS_WITHOUT, names with commas between them, has this one: not everything that tests
// need can be had everywhere.
func LeaveOut(tb testing.TB, name string) {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv("TESTS_WITHOUT"), ","), name) {
		tb.Skipf("left out: TESTS_WITHOUT names %s", name)
	}
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	return strings.TrimSpace(string(out)), err
}
