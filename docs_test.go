package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every test that docs/faults.md names exists.
func TestFaultsNameTheirTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "internal/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(data)
		}
	}
	names := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(page), -1)
	if len(names) < 100 {
		t.Errorf("only %d tests are named", len(names))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.Contains(sources.String(), "\nfunc "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
}
