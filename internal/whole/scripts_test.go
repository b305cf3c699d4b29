package whole_test

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scripts are the product's Lua scripts as Redis knows them: name by SHA-1, and source by SHA-1.
type scripts struct {
	names, sources map[string]string
}

// readScripts takes each script behind every beginning that it may have, so that it need not know which has which.
func readScripts(t *testing.T) scripts {
	t.Helper()
	const folder = "../../delay/scripts"
	files, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	read := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	shared, beginnings := "", []string{""}
	for _, part := range []string{"prelude.lua", "clock.lua", "tries.lua", "lists.lua", "records.lua"} {
		shared += read(filepath.Join(folder, part))
		beginnings = append(beginnings, shared)
	}
	for _, part := range []string{"flight.lua", "back.lua", "lease.lua"} {
		beginnings = append(beginnings, shared+read(filepath.Join(folder, part)))
	}
	plain := read(filepath.Join(folder, "plain.lua"))
	for _, beginning := range beginnings[1:] {
		beginnings = append(beginnings, plain+beginning)
	}
	s := scripts{names: make(map[string]string), sources: make(map[string]string)}
	for _, file := range files {
		for _, beginning := range beginnings {
			source := beginning + read(file)
			sha := shaOf(source)
			s.names[sha], s.sources[sha] = strings.TrimSuffix(filepath.Base(file), ".lua"), source
		}
	}
	return s
}

func shaOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// name gives the name of the script that a request calls, or an empty string. words are its first two.
func (s scripts) name(words []string) string {
	switch {
	case len(words) < 2:
		return ""
	case strings.EqualFold(words[0], "evalsha"):
		return s.names[words[1]]
	case strings.EqualFold(words[0], "eval"):
		return s.names[shaOf(words[1])]
	}
	return ""
}
