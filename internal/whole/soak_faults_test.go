package whole_test

import (
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// soakFault is one that a soak makes, to one of the replicas or to what all of them need. It ends when it is over, so
// that no two are there at once.
type soakFault struct {
	name string
	make func(s *soak, one *soaked)
}

var soakFaults = []soakFault{
	{"replica killed", func(s *soak, one *soaked) {
		one.Kill()
		s.start(one)
		one.WaitFor("bridge serves", startWithin)
	}},
	{"replica frozen", func(s *soak, one *soaked) {
		one.Signal(syscall.SIGSTOP)
		s.pause(s.between(6*time.Second, 9*time.Second)) // past every lease, TTR and slot
		one.Signal(syscall.SIGCONT)
	}},
	{"replica replaced", func(s *soak, one *soaked) {
		s.end(one.Process)
		s.start(one)
		one.WaitFor("bridge serves", startWithin)
	}},
	{"replica cut from Redis", func(s *soak, one *soaked) {
		one.proxy.Cut()
		s.pause(s.between(300*time.Millisecond, 3*time.Second))
		one.proxy.Heal()
	}},
	{"replica far from Redis", func(s *soak, one *soaked) {
		one.proxy.Delay(testenv.ToServer, 10*time.Millisecond)
		one.proxy.Delay(testenv.ToClient, 10*time.Millisecond)
		s.pause(s.between(2*time.Second, 4*time.Second))
		one.proxy.Heal()
	}},
	{"Redis killed", func(s *soak, _ *soaked) {
		s.redis.Kill()
		s.pause(s.between(0, time.Second))
		s.redis.Restart()
	}},
	{"Redis frozen", func(s *soak, _ *soaked) {
		s.redis.Stop()
		s.pause(s.between(time.Second, 3*time.Second))
		s.redis.Cont()
	}},
	{"Redis forgets scripts", func(s *soak, _ *soaked) { s.redis.Client().ScriptFlush(s.ctx) }},
	{"Redis drops clients", func(s *soak, _ *soaked) {
		// It ends this very connection, too.
		s.redis.Client().Do(s.ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}},
	{"NATS restarted", func(s *soak, _ *soaked) {
		s.nats.Shutdown()
		s.pause(s.between(0, time.Second))
		s.nats.Restart()
	}},
}

// chosenFaults gives those whose names match.
func chosenFaults(t *testing.T, pattern string) []soakFault {
	t.Helper()
	match, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(slices.Clone(soakFaults), func(f soakFault) bool { return !match.MatchString(f.name) })
	if len(chosen) == 0 {
		t.Fatalf("no fault matches %q", pattern)
	}
	return chosen
}

// strike makes the next fault. All of them come before any comes again.
func (s *soak) strike() {
	s.t.Helper()
	if s.deck == nil {
		s.deck = s.random.Perm(len(s.faults))
	}
	fault := s.faults[s.deck[0]]
	if s.deck = s.deck[1:]; len(s.deck) == 0 {
		s.deck = nil
	}
	i := s.random.IntN(len(s.replicas))
	from := time.Now()
	fault.make(s, s.replicas[i])
	incident := whole.Incident{Name: fault.name, From: from, To: time.Now()}
	s.incidents = append(s.incidents, incident)
	s.t.Logf("%s: %s (%d), for %v", from.Format("15:04:05.000"), fault.name, i, incident.To.Sub(from).Round(time.Millisecond))
}

func (s *soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}
