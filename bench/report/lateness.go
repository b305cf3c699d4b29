package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dqbridge/dqbridge/bench/load"
)

// lateness is what its template draws: the share of all jobs that came no earlier than due and no later than so much after.
type lateness struct {
	Title                    string
	Width, Height            int
	Left, Right, Top, Bottom int
	Columns, Rows            []grid
	Curves                   []curve
}

type grid struct {
	At    int
	Label string
}

type curve struct {
	Peer, Class   string
	Points, Label string
	Y             int
}

// The picture's scale is logarithmic, from leastLate to mostLate ms.
const (
	leastLate, mostLate = 0.01, 10_000
	chartLeft           = 60
	chartRight          = 560
	chartTop            = 44
	chartBottom         = 300
)

// latenessOf is nil where lateness was not measured.
func latenessOf(groups []Group) any {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Work != "lateness" })
	if len(groups) == 0 {
		return nil
	}
	l := lateness{
		Title: "Share of jobs delivered within so many ms after they were due, at 500 jobs/s",
		Width: width, Height: chartBottom + 36, Left: chartLeft, Right: chartRight, Top: chartTop, Bottom: chartBottom,
	}
	for at := leastLate; at <= mostLate; at *= 10 {
		l.Columns = append(l.Columns, grid{across(at), fmt.Sprintf("%g", math.Round(at*100)/100)})
	}
	for share := 0; share <= 100; share += 25 {
		l.Rows = append(l.Rows, grid{down(share), fmt.Sprintf("%d%%", share)})
	}
	for i := range groups {
		l.Curves = append(l.Curves, curveOf(&groups[i], chartTop+20+i*48))
	}
	return l
}

// across is where a lateness in ms stands.
func across(late float64) int {
	late = min(max(late, leastLate), mostLate)
	return chartLeft + int(math.Log10(late/leastLate)/math.Log10(mostLate/leastLate)*(chartRight-chartLeft))
}

// down is where a share in hundredths stands.
func down(share int) int { return chartBottom - share*(chartBottom-chartTop)/100 }

// curveOf draws the round with the median p99.
func curveOf(g *Group, y int) curve {
	figures := slices.Clone(g.Figures)
	slices.SortFunc(figures, func(a, b load.Figure) int { return int(math.Copysign(1, late(a).P99-late(b).P99)) })
	f := figures[len(figures)/2]
	c := curve{Peer: g.Peer, Class: class(g.Peer), Y: y}
	c.Label = fmt.Sprintf("p50 %s, p99 %s ms", number(late(f).P50), number(late(f).P99))
	early := 0
	var points strings.Builder
	for i, at := range late(f).Curve {
		if at < 0 {
			early = i + 1
			continue
		}
		fmt.Fprintf(&points, "%d,%d ", across(at), down(i-early))
	}
	if early > 0 {
		c.Label = fmt.Sprintf("%.0f%% early, p99 %s ms", 100*float64(f.Early)/float64(f.Jobs), number(late(f).P99))
	}
	if points.Len() > 0 { // what is later than all of them is none
		fmt.Fprintf(&points, "%d,%d", chartRight, down(100-early))
	}
	c.Points = points.String()
	return c
}
