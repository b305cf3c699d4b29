package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dependencies are the rows of docs/dependencies.md: module → licence.
func dependencies(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9]+\.[a-z./\w-]+) \| ([\w.-]+) \|`).FindAllStringSubmatch(string(text), -1) {
		if before, twice := rows[row[1]]; twice && before != row[2] {
			t.Errorf("%s has two licences: %s and %s", row[1], before, row[2])
		}
		rows[row[1]] = row[2]
	}
	return rows
}

// module is one requirement of a go.mod.
type module struct {
	Path, Dir string
	Indirect  bool
}

func goJSON(t *testing.T, dir string, value any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, value)
	}
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
}

// TestDependenciesAreListed: docs/dependencies.md has what go.mod names, with the licence of its file, and nothing else.
func TestDependenciesAreListed(t *testing.T) {
	t.Parallel()
	rows := dependencies(t)
	needed := make(map[string]bool)
	for _, dir := range []string{".", "bench", "internal/manifests"} {
		var file struct{ Require []module }
		goJSON(t, dir, &file, "mod", "edit", "-json")
		for _, m := range file.Require {
			if m.Indirect && dir != "." {
				continue // in no program that is handed out
			}
			needed[m.Path] = true
			if rows[m.Path] == "" {
				t.Errorf("docs/dependencies.md lacks %s, which %s/go.mod requires", m.Path, dir)
			}
			if dir != "." {
				continue
			}
			goJSON(t, dir, &m, "list", "-m", "-json", m.Path)
			if found := licenceOf(t, filepath.Join(m.Dir, "LICEN[CS]E*")); rows[m.Path] != "" && found != rows[m.Path] {
				t.Errorf("docs/dependencies.md says %s has the licence %s, its file looks like %s", m.Path, rows[m.Path], found)
			}
		}
	}
	for path := range rows {
		if !needed[path] {
			t.Errorf("docs/dependencies.md lists %s, which no go.mod requires", path)
		}
	}
}

// TestVendoredFilesAreListed: docs/dependencies.md has the files that the dashboard took from npm, with their hashes, and
// their packages with the licence that lies beside them.
func TestVendoredFilesAreListed(t *testing.T) {
	t.Parallel()
	const vendor, licence = "bridge/dashboard/vendor", ".LICENSE"
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	hashes, licences := make(map[string]string), make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([\\w.]+)` \\| ([0-9a-f]{64}) \\|$").FindAllStringSubmatch(string(page), -1) {
		hashes[row[1]] = row[2]
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \d+\.\d+\.\d+ \| ([\w.-]+) \|`).FindAllStringSubmatch(string(page), -1) {
		licences[row[1]] = row[2]
	}
	files, err := os.ReadDir(vendor)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(vendor, file.Name())
		if name, found := strings.CutSuffix(strings.ToLower(file.Name()), strings.ToLower(licence)); found {
			if is := licenceOf(t, path); is != licences[name] {
				t.Errorf("docs/dependencies.md says %s has the licence %q, its file looks like %s", name, licences[name], is)
			}
			delete(licences, name)
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hashes[file.Name()] != hex.EncodeToString(sum[:]) {
			t.Errorf("docs/dependencies.md says %s has the hash %q, it has %x", file.Name(), hashes[file.Name()], sum)
		}
		delete(hashes, file.Name())
	}
	if len(hashes)+len(licences) > 0 {
		t.Errorf("docs/dependencies.md lists what is not in %s: %v %v", vendor, hashes, licences)
	}
}

// licenceOf knows the licences in use by words that only their texts have. Behind the licence of the whole may stand those
// of parts.
func licenceOf(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no licence in %s: %v", pattern, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(data)), " ")
	found, first := "unknown", len(text)
	for words, licence := range map[string]string{
		"Mozilla Public License Version 2.0": "MPL-2.0", "Redistribution and use in source and binary forms": "BSD-2-Clause",
		"Apache License": "Apache-2.0", "Permission is hereby granted, free of charge": "MIT",
	} {
		if at := strings.Index(text, words); at >= 0 && at < first {
			found, first = licence, at
		}
	}
	if found == "BSD-2-Clause" && strings.Contains(text, "Neither the name") {
		return "BSD-3-Clause"
	}
	return found
}
