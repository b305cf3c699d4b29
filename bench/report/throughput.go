package report

import (
	"fmt"
	"slices"

	"github.com/dqbridge/dqbridge/bench/load"
)

// throughput is what its template draws: one bar a peer, in groups by workload.
type throughput struct {
	Title         string
	Width, Height int
	Left          int // where bars begin
	Bars          []bar
}

type bar struct {
	// Head stands above the first bar of a workload.
	Head        string
	HeadY       int
	Peer, Class string
	Label       string
	Y, Middle   int
	// Length is the median; Least and Most are where the range of the rounds begins and ends.
	Length, Least, Most int
}

// Sizes of the picture, in pixels.
const (
	width, left, right      = 760, 130, 110
	row, headRoom, topOfAll = 22, 34, 36
)

// throughputOf is nil where no workload with a rate was measured.
func throughputOf(groups []Group) any {
	works := []string{"push", "batches", "drain", "steady"}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !slices.Contains(works, g.Work) })
	if len(groups) == 0 {
		return nil
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return slices.Index(works, a.Work) - slices.Index(works, b.Work) })
	most := 0.0
	for _, g := range groups {
		most = max(most, slices.Max(g.values(rate)))
	}
	scale := float64(width-left-right) / most
	t := throughput{Title: "Jobs a second: median, and from the slowest round to the fastest", Width: width, Left: left}
	y, last := topOfAll, ""
	for _, g := range groups {
		b := bar{Peer: g.Peer, Class: class(g.Peer), Label: thousands(g.median(rate))}
		if g.Work != last {
			b.Head, b.HeadY = headOf(g.Work), y+headRoom-10
			y += headRoom
			last = g.Work
		}
		list := g.values(rate)
		b.Y, b.Middle = y, y+8
		b.Length = int(g.median(rate) * scale)
		b.Least, b.Most = left+int(slices.Min(list)*scale), left+int(slices.Max(list)*scale)
		t.Bars = append(t.Bars, b)
		y += row
	}
	t.Height = y + 10
	return t
}

// headOf is the title of a workload, with its name.
func headOf(name string) string {
	for _, work := range load.Works() {
		if work.Name == name {
			return name + ": " + work.Title
		}
	}
	return name
}

func thousands(x float64) string {
	if x < 10_000 {
		return fmt.Sprintf("%.1fk", x/1000)
	}
	return fmt.Sprintf("%.0fk", x/1000)
}
