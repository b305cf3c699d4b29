package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// column is the head of a column, and on which side its cells stand.
type column struct {
	title string
	right bool // for numbers
}

// maxPending is how many rows a table keeps back to align them.
const maxPending = 1000

// table prints rows in aligned columns. It keeps no more than maxPending of them back for that: a long listing needs
// little memory, and its columns may become wider on the way.
type table struct {
	out     io.Writer
	colour  bool
	columns []column
	widths  []int
	pending [][]string
	begun   bool // the head is printed
}

func newTable(env Env, columns ...column) *table {
	t := &table{out: env.Stdout, colour: env.Colour, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = width(c.title)
	}
	return t
}

// add takes rows, which are printed by flush, or when they are many.
func (t *table) add(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain(cell)
			t.widths[i] = max(t.widths[i], width(row[i]))
		}
	}
	t.pending = append(t.pending, rows...)
	if len(t.pending) < maxPending {
		return nil
	}
	return t.flush()
}

// empty says that there was no row.
func (t *table) empty() bool { return !t.begun && len(t.pending) == 0 }

// flush prints what is there, below the head when it is the first.
func (t *table) flush() error {
	var text strings.Builder
	if !t.begun && len(t.pending) > 0 {
		t.begun = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.title
		}
		head := t.line(titles)
		if t.colour {
			head = "\x1b[1m" + head + "\x1b[0m"
		}
		text.WriteString(head + "\n")
	}
	for _, row := range t.pending {
		text.WriteString(t.line(row) + "\n")
	}
	t.pending = nil
	_, err := io.WriteString(t.out, text.String())
	return err
}

// print prints the rows of a table that has no more.
func (t *table) print(rows [][]string) error {
	if err := t.add(rows); err != nil {
		return err
	}
	return t.flush()
}

func (t *table) line(cells []string) string {
	padded := make([]string, len(cells))
	for i, cell := range cells {
		room := strings.Repeat(" ", t.widths[i]-width(cell))
		if t.columns[i].right {
			padded[i] = room + cell
		} else {
			padded[i] = cell + room
		}
	}
	return strings.TrimRight(strings.Join(padded, "  "), " ")
}

// width is how many cells of a terminal a text takes, near enough: East Asian characters and pictures take two.
func width(text string) int {
	cells := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
			r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
			cells += 2
		default:
			cells++
		}
	}
	return cells
}

// field is one line of a list of names and values.
type field struct{ name, value string }

// fields puts each name beside its value, and leaves out what has none.
func fields(list []field) string {
	var text strings.Builder
	for _, f := range list {
		if f.value != "" {
			fmt.Fprintf(&text, "%-12s  %s\n", f.name, plain(f.value))
		}
	}
	return text.String()
}
