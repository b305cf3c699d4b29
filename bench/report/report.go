// Package report makes tables and pictures of figures.
package report

import (
	"cmp"
	"slices"

	"github.com/dqbridge/dqbridge/bench/load"
)

// Group is what one peer showed in one workload, in all rounds, with its best number of workers.
type Group struct {
	Work, Peer string
	Workers    int
	Figures    []load.Figure
}

// Groups puts figures together in the order in which they first appear; of the numbers of workers the best median counts.
func Groups(figures []load.Figure) []Group {
	var all []Group
	for _, f := range figures {
		i := slices.IndexFunc(all, func(g Group) bool { return g.Work == f.Work && g.Peer == f.Peer && g.Workers == f.Workers })
		if i < 0 {
			all = append(all, Group{Work: f.Work, Peer: f.Peer, Workers: f.Workers})
			i = len(all) - 1
		}
		all[i].Figures = append(all[i].Figures, f)
	}
	var best []Group
	for _, g := range all {
		i := slices.IndexFunc(best, func(b Group) bool { return b.Work == g.Work && b.Peer == g.Peer })
		switch {
		case i < 0:
			best = append(best, g)
		case g.median(rate) > best[i].median(rate):
			best[i] = g
		}
	}
	return best
}

func rate(f load.Figure) float64 { return f.PerSecond }

func (g *Group) values(of func(load.Figure) float64) []float64 {
	list := make([]float64, len(g.Figures))
	for i, f := range g.Figures {
		list[i] = of(f)
	}
	return list
}

func (g *Group) median(of func(load.Figure) float64) float64 { return median(g.values(of)) }

func (g *Group) sum(of func(load.Figure) int) int {
	sum := 0
	for _, f := range g.Figures {
		sum += of(f)
	}
	return sum
}

// median of a list that is not empty.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	if n := len(list); n%2 == 0 {
		return (list[n/2-1] + list[n/2]) / 2
	}
	return list[len(list)/2]
}

// ratios are those of two groups, round by round, so that what disturbs a whole round disturbs both sides of it.
func ratios(a, b *Group, of func(load.Figure) float64) []float64 {
	var list []float64
	for _, x := range a.Figures {
		i := slices.IndexFunc(b.Figures, func(f load.Figure) bool { return f.Round == x.Round })
		if i >= 0 && of(b.Figures[i]) != 0 {
			list = append(list, of(x)/of(b.Figures[i]))
		}
	}
	slices.SortFunc(list, cmp.Compare[float64])
	return list
}
