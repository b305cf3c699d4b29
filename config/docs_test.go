package config_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/config"
)

// readREADME finds README.md beside go.mod.
func readREADME(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod above the test: %v", err)
		}
		dir = filepath.Dir(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README's table has a row for each variable: | `DQ_TICK` | `1s` | meaning |.
func TestREADMEListsEveryVariable(t *testing.T) {
	t.Parallel()
	readme := readREADME(t)
	defaults := config.Defaults()

	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| *`(DQ_[A-Z_]+)` *\\|([^|]*)\\|").FindAllStringSubmatch(readme, -1) {
		rows[row[1]] = strings.Trim(row[2], " `")
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		got, listed := rows[name]
		switch want := defaults[name]; {
		case !listed:
			t.Errorf("README has no row for %s", name)
		case got != want:
			t.Errorf("README says the default of %s is %q, and it is %q", name, got, want)
		}
	}
	for _, name := range regexp.MustCompile(`\bDQ_[A-Z0-9_]*[A-Z0-9]\b`).FindAllString(readme, -1) {
		if _, known := defaults[name]; !known {
			t.Errorf("README names %s, which is no variable", name)
		}
	}
}

// The contract lists 28 variables.
func TestVariablesAreDescribed(t *testing.T) {
	t.Parallel()
	names := config.VariableNames()
	if want := 28; len(names) != want {
		t.Errorf("%d variables, want %d", len(names), want)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("a name twice in %v", names)
	}
	usage := config.Usage()
	for _, name := range names {
		line := regexp.MustCompile(`(?m)^` + name + ` .*\S  +\S.*$`)
		if !strings.HasPrefix(name, "DQ_") || !line.MatchString(usage) {
			t.Errorf("%s has no full line in the usage:\n%s", name, usage)
		}
	}
}

// Whatever is wrong with a variable, the fault names that variable, so no check has a mistyped name.
func TestEveryVariableRefusesGarbage(t *testing.T) {
	for _, name := range config.VariableNames() {
		t.Run(name, func(t *testing.T) {
			setEnv(t, map[string]string{name: "\tgarbage \x01/."})
			_, err := config.Load()
			if err == nil || !strings.Contains(err.Error(), name+"=") {
				t.Errorf("garbage in %s: %v", name, err)
			}
		})
	}
}
