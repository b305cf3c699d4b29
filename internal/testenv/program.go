package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// withoutVariable names programs, with commas between them, whose tests are to be left out. It is for machines where one
// cannot be had; a program that is missing for no such reason fails the test.
const withoutVariable = "TESTS_WITHOUT"

// Program gives the path of a program that a test needs beside redis-server; hint says how to get it.
func Program(tb testing.TB, name, hint string) string {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv(withoutVariable), ","), name) {
		tb.Skipf("left out: %s names %s", withoutVariable, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("this test needs %s in the PATH (%s), or %s=%s: %v", name, hint, withoutVariable, name, err)
	}
	return path
}
