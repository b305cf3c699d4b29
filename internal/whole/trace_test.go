package whole_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/whole"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	s := newScript()
	twice := func(id string, first, attempt, second int) {
		s.push(id)
		s.at(first).Delivered(id, 1, s.due(100))
		s.at(second).Delivered(id, attempt, s.due(100))
		s.Finishing(id)
	}
	twice("before the fault", 200, 2, 900)
	twice("the fault between", 900, 1, 1500)
	twice("just after it", 2050, 2, 4000)
	twice("of a later one", 2060, 2, 9100)
	twice("long after", 3000, 2, 6000)
	s.push("left")
	s.at(1400).Delivered("left", 1, s.due(100))
	s.Left("left", 1)
	s.at(1500).Delivered("left", 2, s.due(100))
	s.Finishing("left")
	report := s.Check(wire)
	if err := report.Err(); err != nil || report.Redelivered != 5 || report.Repeated != 1 {
		t.Fatal(report.String(), err)
	}
	incidents := []whole.Incident{
		{Name: "frozen", From: s.due(1000), To: s.due(2000)},
		{Name: "cut", From: s.due(9000), To: s.due(9200)},
		{Name: "cut", From: s.due(9500), To: s.due(9600)},
	}
	table, unexplained := s.Trace(&report, incidents, 2*time.Second, 100*time.Millisecond)
	var ids []string
	for _, a := range unexplained {
		ids = append(ids, a.ID)
	}
	if got := strings.Join(ids, ", "); got != "before the fault, long after" {
		t.Errorf("unexplained: %s", got)
	}
	for _, row := range []string{
		`\(left by its worker\) +0 +0 +1 +0`, `\(unexplained\) +0 +0 +2 +0`, `frozen +1 +1s .* 1 +1 +0`, `cut +2 +150ms .* 0 +1 +0`,
	} {
		if !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("no row %q in\n%s", row, table)
		}
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	s := newScript()
	n := 0
	come := func(from, to, late int) {
		for at := from; at < to; at += 20 {
			n++
			id := strings.Repeat("x", n)
			s.Pushing(id, s.due(at-late))
			s.at(at).Delivered(id, 1, s.due(at-late))
			s.Finishing(id)
		}
	}
	come(0, 1000, 5)
	come(3000, 3500, 2500) // a backlog
	come(3500, 3600, 10)
	s.at(3010).Pushed("x", time.Time{})
	come(3600, 3620, 400) // a straggler
	come(3620, 5000, 10)
	normal := s.Normal(s.due(2000))
	if normal != 115*time.Millisecond {
		t.Errorf("normal is %v", normal)
	}
	if r := s.Recovery(s.due(3000), normal); r.Confirmed != 10*time.Millisecond || r.InTime != 500*time.Millisecond {
		t.Error(r)
	}
	if r := s.Recovery(s.due(4600), normal); r.Confirmed >= 0 || r.InTime >= 0 {
		t.Errorf("too early to say: %s", r)
	}
}
