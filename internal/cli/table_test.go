package cli

import (
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var out screen
	table := newTable(Env{Stdout: &out}, column{title: "ID"}, column{"JOBS", true}, column{title: "LAST"})
	for _, page := range [][][]string{
		{},
		{{"a", "1", "x"}, {"日本é", "12345", ""}},
		{{"a longer one\x1b[2J", "2", "x"}},
		{{"b", "3", "x"}},
	} {
		if err := table.print(page); err != nil {
			t.Fatal(err)
		}
	}
	want := `ID      JOBS  LAST
a          1  x
日本é  12345
a longer one\x1b[2J      2  x
b                        3  x
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTableHeadIsBoldInColour(t *testing.T) {
	t.Parallel()
	var out screen
	if err := newTable(Env{Stdout: &out, Colour: true}, column{title: "ID"}).print([][]string{{"a"}}); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[1mID\x1b[0m\na\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestRelative(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		0:                                       "0s ago",
		250 * time.Millisecond:                  "in 250ms",
		-90 * time.Second:                       "1m30s ago",
		2*time.Hour + 20*time.Second:            "in 2h",
		2*time.Hour + 5*time.Minute:             "in 2h5m",
		3*day + 4*time.Hour + 20*time.Minute:    "in 3d4h",
		-(400*day + 11*time.Hour):               "400d ago",
		59*time.Minute + 59700*time.Millisecond: "in 1h",
	} {
		if got := relative(now.Add(left), now); got != want {
			t.Errorf("%v: %s, want %s", left, got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	if got := string(readable([]byte("a\tb\nré\x1b[31m\xff\x00\u009b"))); got != "a\tb\nré\\x1b[31m\\xff\\x00\\u009b" {
		t.Errorf("%q", got)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"report-1": "report-1", "a b": "'a b'", "it's": `'it'\''s'`, "-x": "-- -x", "-x y": "-- '-x y'", "日": "'日'", "": "''",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 29: "1.5 GiB", 1 << 62: "4096.0 PiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
