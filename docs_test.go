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

// Each alert has a section in docs/operations.md that says what to do, which its runbook link finds; and no section is left
// of an alert that is gone.
func TestOperationsTellOfEachAlert(t *testing.T) {
	t.Parallel()
	rules, page := read(t, "docs/alerts.yml"), read(t, "docs/operations.md")
	alerts := matches(`(?m)^ *- alert: (\w+)$`, rules)
	_, section, _ := strings.Cut(page, "\n## Alerts\n")
	if headings := matches(`(?m)^### (\w+)$`, section); !slices.Equal(slices.Sorted(slices.Values(alerts)), slices.Sorted(slices.Values(headings))) {
		t.Errorf("the alerts are\n%q\nand the page tells of\n%q", alerts, headings)
	}
	var links []string
	for _, alert := range alerts {
		links = append(links, strings.ToLower(alert))
	}
	if found := matches(`docs/operations\.md#(\w+)`, rules); !slices.Equal(found, links) {
		t.Errorf("the runbook links are\n%q, want\n%q", found, links)
	}
}

// Every source that docs/architecture.md names exists.
func TestArchitectureNamesItsFiles(t *testing.T) {
	t.Parallel()
	names := matches("`([\\w*./-]+\\.(?:go|lua|yml|svg))`", read(t, "docs/architecture.md"))
	if len(names) < 50 {
		t.Errorf("only %d files are named", len(names))
	}
	for _, name := range names {
		var found []string
		for _, folder := range []string{".", "*", "internal/*", "delay/scripts"} {
			files, err := filepath.Glob(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, files...)
		}
		if len(found) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
}
