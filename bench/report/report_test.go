package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/bench/load"
	"github.com/dqbridge/dqbridge/bench/report"
)

// spreadFrom goes evenly from least to most ms.
func spreadFrom(least, most float64) *load.Spread {
	s := &load.Spread{Min: least, Max: most}
	for i := range 101 {
		s.Curve = append(s.Curve, least+(most-least)*float64(i)/100)
	}
	s.P50, s.P99 = s.Curve[50], s.Curve[99]
	return s
}

func sample() []load.Figure {
	var all []load.Figure
	for round := 1; round <= 3; round++ {
		up := float64(round)
		all = append(all,
			load.Figure{Work: "push", Peer: "dqbridge", Round: round, Jobs: 1000, PerSecond: 20_000 * up, CPU: 10, Others: 0.25, CPUOf: map[string]float64{"bridge": 4, "client": 6}},
			load.Figure{Work: "push", Peer: "asynq", Round: round, Jobs: 1000, PerSecond: 10_000 * up, CPU: 20, Lost: 1},
			load.Figure{Work: "drain", Peer: "dqbridge", Round: round, Workers: 1, Jobs: 1000, PerSecond: 100 * up, FromFirst: 110 * up},
			load.Figure{Work: "drain", Peer: "dqbridge", Round: round, Workers: 2, Jobs: 1000, PerSecond: 200 * up, FromFirst: 210 * up},
			load.Figure{Work: "lateness", Peer: "dqbridge", Round: round, Workers: 1, Jobs: 1000, PerSecond: 400, Asked: 500, Lateness: spreadFrom(0.2, 2)},
			load.Figure{Work: "lateness", Peer: "asynq", Round: round, Workers: 1, Jobs: 1000, PerSecond: 500, Asked: 500, Early: 900, Lateness: spreadFrom(-900, 100)},
			load.Figure{Work: "memory", Peer: "dqbridge", Round: round, Jobs: 1000, Bytes: 300},
		)
	}
	return all
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report.Table(&b, sample()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| dqbridge | 40.0k (20.0k–60.0k) | 1.00 (1.00–1.00) | 10.0 (10.0–10.0) | 1.00 (1.00–1.00) | bridge 4.00, client 6.00 | 25% | clean |",
		"| asynq | 20.0k (10.0k–30.0k) | 2.00 (2.00–2.00) | 20.0 (20.0–20.0) | 2.00 (2.00–2.00) |  | 0% | 0.1% lost |",
		"| dqbridge | 2 | 400 (200–600) | 420 (210–630) |", // the better number of workers
		"pushed 400 a second only",
		"90% early",
		"| dqbridge | 300 (300–300) | 1.00 (1.00–1.00) |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestPictures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := report.Pictures(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"throughput.svg", "lateness.svg"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), ">dqbridge</text>") {
			t.Errorf("%s does not name dqbridge", name)
		}
		d := xml.NewDecoder(strings.NewReader(string(data)))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s is no XML: %v", name, err)
		}
	}
}
