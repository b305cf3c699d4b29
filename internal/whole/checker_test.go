package whole_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// script writes a history by hand, on a clock of its own.
type script struct {
	*whole.History

	start, now time.Time
}

func newScript() *script {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &script{start: start, now: start}
	s.History = whole.NewHistory(func() time.Time { return s.now })
	return s
}

// at moves the clock to so many ms after the start.
func (s *script) at(ms int) *script {
	s.now = s.start.Add(time.Duration(ms) * time.Millisecond)
	return s
}

func (s *script) due(ms int) time.Time { return s.start.Add(time.Duration(ms) * time.Millisecond) }

// push pushes a job that is due at 100.
func (s *script) push(id string) {
	s.at(0).Pushing(id, s.due(100))
	s.at(5).Pushed(id, s.due(100))
}

// wire is the grace of these tests.
const wire = 20 * time.Millisecond

func TestCheckerFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind whole.Kind
		run  func(s *script)
	}{
		"never delivered": {whole.Lost, func(s *script) { s.push("x") }},
		"confirmed without a due time, and never delivered": {whole.Lost, func(s *script) {
			s.Pushing("x", s.due(100))
			s.Pushed("x", time.Time{})
		}},
		"finished without a delivery": {whole.Lost, func(s *script) {
			s.push("x")
			s.Finishing("x")
			s.at(110).Finished("x")
		}},
		"left unanswered and gone": {whole.Vanished, func(s *script) {
			s.push("x")
			s.at(100).Delivered("x", 1, s.due(100))
			s.at(900).Delivered("x", 2, s.due(100))
		}},
		"unconfirmed, left unanswered and gone": {whole.Vanished, func(s *script) {
			s.Pushing("x", s.due(100))
			s.at(100).Delivered("x", 1, s.due(100))
		}},
		"before its due time": {whole.Early, func(s *script) {
			s.push("x")
			s.at(99).Delivered("x", 1, s.due(100))
			s.Finishing("x")
		}},
		"a redelivery before its due time": {whole.Early, func(s *script) {
			s.push("x")
			s.at(120).Delivered("x", 1, s.due(100))
			s.at(90).Delivered("x", 2, s.due(100))
			s.Finishing("x")
		}},
		"confirmed as due before it was": {whole.Early, func(s *script) {
			s.at(0).Pushing("x", s.due(100))
			s.Pushed("x", s.due(50))
			s.at(60).Delivered("x", 1, s.due(50))
			s.Finishing("x")
		}},
		"unconfirmed and before its due time": {whole.Early, func(s *script) {
			s.Pushing("x", s.due(100))
			s.at(99).Delivered("x", 1, s.due(100))
			s.Finishing("x")
		}},
		"after its confirmed finish": {whole.AfterFinish, func(s *script) {
			s.push("x")
			s.at(100).Delivered("x", 1, s.due(100))
			s.Finishing("x")
			s.at(110).Finished("x")
			s.at(131).Delivered("x", 1, s.due(100))
		}},
		"after the first of two finishes": {whole.AfterFinish, func(s *script) {
			s.push("x")
			s.at(100).Delivered("x", 1, s.due(100))
			s.Finishing("x")
			s.at(110).Finished("x")
			s.at(200).Delivered("x", 2, s.due(100))
			s.at(210).Finished("x")
		}},
		"attempt down": {whole.AttemptDown, func(s *script) {
			s.push("x")
			s.at(100).Delivered("x", 2, s.due(100))
			s.at(110).Delivered("x", 1, s.due(100))
			s.Finishing("x")
		}},
		"attempt zero": {whole.AttemptDown, func(s *script) {
			s.push("x")
			s.at(100).Delivered("x", 0, s.due(100))
			s.Finishing("x")
		}},
		"due later than confirmed": {whole.WrongDue, func(s *script) {
			s.push("x")
			s.at(200).Delivered("x", 1, s.due(101))
			s.Finishing("x")
		}},
		"due moved at the redelivery": {whole.WrongDue, func(s *script) {
			s.Pushing("x", s.due(100))
			s.at(200).Delivered("x", 1, s.due(100))
			s.at(210).Delivered("x", 2, s.due(200))
			s.Finishing("x")
		}},
		"pushed by nobody": {whole.Stranger, func(s *script) {
			s.at(100).Delivered("x", 1, s.due(100))
			s.Finishing("x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			s.push("sound") // faults of one job must not be taken for those of another
			s.at(100).Delivered("sound", 1, s.due(100))
			s.Finishing("sound")
			test.run(s)
			report := s.Check(wire)
			if len(report.Faults) != 1 || report.Faults[0].Kind != test.kind || report.Faults[0].ID != "x" {
				t.Errorf("faults %+v, want one that is %q", report.Faults, test.kind)
			}
			if err := report.Err(); err == nil || !strings.Contains(err.Error(), string(test.kind)+": x: ") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCheckerCounts(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.push("once")
	s.at(100).Delivered("once", 1, s.due(100))
	s.Finishing("once")
	s.at(110).Finished("once")

	s.push("often")
	s.at(103).Delivered("often", 1, s.due(100))
	s.at(200).Delivered("often", 1, s.due(100))
	s.at(300).Delivered("often", 2, s.due(100))
	s.Finishing("often")
	s.at(310).Finished("often")
	s.at(330).Delivered("often", 3, s.due(100)) // at the very end of the grace

	s.Pushing("unconfirmed", s.due(100))
	s.Pushing("unconfirmed and stored", s.due(100))
	s.at(107).Delivered("unconfirmed and stored", 1, s.due(100))
	s.Finishing("unconfirmed and stored")

	report := s.Check(wire)
	want := "2 jobs confirmed, 2 not; 6 deliveries: 1 repeated, 2 redelivered, 1 on the wire at their finish; " +
		"2 finishes confirmed; lateness p50 3ms, max 7ms; 0 faults"
	if report.String() != want || report.Err() != nil {
		t.Errorf("%s (%v)\nwant\n%s", report.String(), report.Err(), want)
	}
	if pushed, delivered := s.Count(); pushed != 2 || delivered != 3 {
		t.Errorf("%d pushed, %d delivered", pushed, delivered)
	}
	story := "attempt 1 03:04:05.100, finish sent 03:04:05.100, finish confirmed 03:04:05.110"
	if text := s.Story("once"); text != story || s.Story("never heard of") != "never heard of" {
		t.Errorf("the story of once: %s", text)
	}
	if !s.IsFinished("once") || s.IsFinished("unconfirmed and stored") || s.IsFinished("never heard of") {
		t.Error("finished are others")
	}
}

// TestCheckerOfStoresThatUndo: after a failover an unconfirmed job may be gone, and an attempt counted again; nothing else.
func TestCheckerOfStoresThatUndo(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.push("counted again")
	s.at(100).Delivered("counted again", 2, s.due(100))
	s.at(110).Delivered("counted again", 1, s.due(100))
	s.Finishing("counted again")
	s.Pushing("gone", s.due(100))
	s.at(110).Delivered("gone", 1, s.due(100))
	if report := s.Check(wire); len(report.Faults) != 2 {
		t.Errorf("faults of a store that keeps all: %v", report.Err())
	}
	s.StoreUndoes()
	if report := s.Check(wire); report.Err() != nil {
		t.Error(report.Err())
	}
	s.at(120).Delivered("counted again", 0, s.due(100))
	if report := s.Check(wire); len(report.Faults) != 1 {
		t.Errorf("faults of an attempt 0: %v", report.Err())
	}
}

func TestCheckerBoundsItsText(t *testing.T) {
	t.Parallel()
	s := newScript()
	for i := range 1000 {
		s.push(strings.Repeat("x", i+1))
	}
	report := s.Check(wire)
	text := report.Err().Error()
	if len(report.Faults) != 1000 || strings.Count(text, "\n") != 6 || !strings.Contains(text, "lost: and 995 more") {
		t.Errorf("%d faults:\n%s", len(report.Faults), text)
	}
}

func z(member string) redis.Z { return redis.Z{Score: 1, Member: member} }

func TestLeftovers(t *testing.T) {
	t.Parallel()
	prefix := testenv.Prefix(t)
	ctx, client := t.Context(), testenv.SharedRedis(t).Client()
	left := func() []string {
		t.Helper()
		lines, err := whole.Leftovers(ctx, client, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	client.HSet(ctx, prefix+":meta", "layout", "1")
	client.HSet(ctx, prefix+":meta:replicas", "0", "p 1 0 - host")
	client.HSet(ctx, prefix+":{0}:clock", "now", "1")
	client.HSet(ctx, prefix+"x:{0}:pool", "a", "of another store")
	if lines := left(); len(lines) != 0 {
		t.Errorf("an empty store leaves %q", lines)
	}
	for name, plant := range map[string]func(key string){
		"{0}:pool":         func(key string) { client.HSet(ctx, key, "a", "record") },
		"{7}:bodies":       func(key string) { client.HSet(ctx, key, "a", "body") },
		"{0}:tries":        func(key string) { client.HSet(ctx, key, "a", "1 2 3") },
		"{0}:bucket":       func(key string) { client.ZAdd(ctx, key, z("a")) },
		"{0}:running":      func(key string) { client.ZAdd(ctx, key, z("a")) },
		"{0}:dead":         func(key string) { client.ZAdd(ctx, key, z("a")) },
		"{0}:active":       func(key string) { client.ZAdd(ctx, key, z("mail")) },
		"{0}:topic:mail":   func(key string) { client.RPush(ctx, key, "a") },
		"{0}:topic:clock":  func(key string) { client.RPush(ctx, key, "a") },
		"{0}:topic:x}:y":   func(key string) { client.RPush(ctx, key, "a") },
		"{1}:topics":       func(key string) { client.HSet(ctx, key, "d:mail", "0") },
		"{2}:topics":       func(key string) { client.HSet(ctx, key, "i:mail", "-1") },
		"{0}:of no use":    func(key string) { client.Set(ctx, key, "a", 0) },
		"lock":             func(key string) { client.Set(ctx, key, "a", 0) },
		"{0}:topic:}:meta": func(key string) { client.RPush(ctx, key, "a") },
	} {
		key := prefix + ":" + name
		plant(key)
		if lines := left(); len(lines) != 1 || !strings.HasPrefix(lines[0], key+": ") {
			t.Errorf("%s leaves %q", name, lines)
		}
		client.Del(ctx, key)
	}
}
