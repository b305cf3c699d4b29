package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dqbridge/dqbridge/bench/load"
)

// Table writes one Markdown table a workload. Ratios are of the first peer to each other one.
func Table(w io.Writer, figures []load.Figure) error {
	groups := Groups(figures)
	var b strings.Builder
	for _, work := range load.Works() {
		var rows []Group
		for _, g := range groups {
			if g.Work == work.Name {
				rows = append(rows, g)
			}
		}
		if len(rows) > 0 {
			section(&b, work, rows)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func section(b *strings.Builder, work load.Work, rows []Group) {
	fmt.Fprintf(b, "\n**%s**: %s, %d jobs, %d rounds\n\n", work.Name, work.Title, rows[0].Figures[0].Jobs, len(rows[0].Figures))
	columns := columnsOf(rows)
	line := func(cell func(column) string) {
		for _, c := range columns {
			fmt.Fprintf(b, "| %s ", cell(c))
		}
		b.WriteString("|\n")
	}
	line(func(c column) string { return c.title })
	line(func(column) string { return "---" })
	for i := range rows {
		line(func(c column) string { return c.cell(&rows[i]) })
	}
}

// column is one of a table: its cell is of a group.
type column struct {
	title string
	cell  func(g *Group) string
}

func columnsOf(rows []Group) []column {
	first, sample := &rows[0], rows[0].Figures[0]
	columns := []column{{"", func(g *Group) string { return g.Peer }}}
	if sample.Workers > 0 {
		columns = append(columns, column{"workers", func(g *Group) string { return strconv.Itoa(g.Workers) }})
	}
	if sample.Bytes != 0 {
		return append(columns, spread("bytes a job", bytesOf), ratio(first, "bytes to "+first.Peer+"'s", bytesOf))
	}
	paced := strings.HasPrefix(sample.Work, "lateness")
	if !paced {
		columns = append(columns, spread("jobs/s", rate))
		if sample.FromFirst > 0 {
			columns = append(columns, spread("from the first delivery", func(f load.Figure) float64 { return f.FromFirst }))
		}
		columns = append(columns, column{first.Peer + " is, times", func(g *Group) string { return times(ratios(first, g, rate)) }})
	}
	if sample.Lateness != nil {
		columns = append(columns,
			spread("p50 ms", func(f load.Figure) float64 { return late(f).P50 }),
			spread("p99 ms", func(f load.Figure) float64 { return late(f).P99 }),
			spread("earliest ms", func(f load.Figure) float64 { return late(f).Min }))
	}
	return append(columns, spread("CPU µs a job", cpu), ratio(first, "CPU to "+first.Peer+"'s", cpu),
		column{"of it", cpuOf}, column{"others on the machine", others}, column{"check", check})
}

func cpu(f load.Figure) float64     { return f.CPU }
func bytesOf(f load.Figure) float64 { return f.Bytes }

func late(f load.Figure) load.Spread {
	if f.Lateness == nil {
		return load.Spread{}
	}
	return *f.Lateness
}

// spread is the median with the least and the most.
func spread(title string, of func(load.Figure) float64) column {
	return column{title, func(g *Group) string {
		list := g.values(of)
		if len(list) == 1 {
			return number(list[0])
		}
		return fmt.Sprintf("%s (%s–%s)", number(median(list)), number(slices.Min(list)), number(slices.Max(list)))
	}}
}

// ratio is of a group to the first one.
func ratio(first *Group, title string, of func(load.Figure) float64) column {
	return column{title, func(g *Group) string { return times(ratios(g, first, of)) }}
}

func times(list []float64) string {
	switch len(list) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.2f", list[0])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(list), list[0], list[len(list)-1])
}

// number has three digits that count, and no less than whole ones from a hundred on.
func number(x float64) string {
	switch size := math.Abs(x); {
	case size >= 10_000:
		return fmt.Sprintf("%.1fk", x/1000)
	case size >= 100:
		return fmt.Sprintf("%.0f", x)
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// cpuOf says which process used how much.
func cpuOf(g *Group) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(g.Figures[0].CPUOf)) {
		of := func(f load.Figure) float64 { return f.CPUOf[name] }
		parts = append(parts, name+" "+number(g.median(of)))
	}
	return strings.Join(parts, ", ")
}

// others is how much of the machine belonged to somebody else.
func others(g *Group) string {
	return fmt.Sprintf("%.0f%%", 100*g.median(func(f load.Figure) float64 { return f.Others }))
}

// check says what should not have been, in all rounds together.
func check(g *Group) string {
	var parts []string
	add := func(name string, of func(load.Figure) int) {
		if n := g.sum(of); n > 0 {
			parts = append(parts, fmt.Sprintf("%.3g%% %s", 100*float64(n)/float64(g.sum(func(f load.Figure) int { return f.Jobs })), name))
		}
	}
	add("lost", func(f load.Figure) int { return f.Lost })
	add("twice", func(f load.Figure) int { return f.Twice })
	add("early", func(f load.Figure) int { return f.Early })
	if asked := g.Figures[0].Asked; g.median(rate) < 0.98*asked {
		parts = append(parts, fmt.Sprintf("pushed %s a second only", number(g.median(rate))))
	}
	if len(parts) == 0 {
		return "clean"
	}
	return strings.Join(parts, ", ")
}
