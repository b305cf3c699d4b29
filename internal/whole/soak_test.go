package whole_test

import (
	"flag"
	"math/rand/v2"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// A long soak has no race detector: make soak SOAK=10m
var (
	soakFor  = flag.Duration("soak", 15*time.Second, "how long TestSoak runs")
	soakRate = flag.Int("soak.rate", 300, "how many jobs a second TestSoak pushes")
	soakOf   = flag.String("soak.faults", ".", "a pattern: which faults TestSoak makes")
	soakSeed = flag.Uint64("soak.seed", 0, "which faults come when in TestSoak; 0: others each time")
)

// soak is an installation under load in which one fault follows the other.
type soak struct {
	*rig

	seed     uint64
	random   *rand.Rand // of the faults
	faults   []soakFault
	deck     []int // the faults that come before any comes again
	replicas []*soaked
	// incidents are the faults so far.
	incidents []whole.Incident
	// buried are ids that were buried once.
	buried sync.Map
}

// soaked is a replica that is replaced by others, and its way to Redis.
type soaked struct {
	*testenv.Process

	proxy *testenv.Proxy
}

// Whatever happens to replicas, Redis and NATS, one after the other and for as long as one likes: no job is lost, none
// comes early or after its finish, nothing is left, and what comes twice has its reason.
func TestSoak(t *testing.T) {
	t.Parallel()
	const replicas, calm, rest = 3, 2 * time.Second, time.Second
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to have these faults again: -soak.seed %d", seed)
	r := newRig(t, "always")
	r.patience, r.ackPatience = 10*time.Second, soakTTR // shorter ones would make load of their own in an outage
	// A replica publishes what it leased up to half a lease before, and after an outage under load that takes it so long.
	r.wire = lease/2 + onWire
	s := &soak{rig: r, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), faults: chosenFaults(t, *soakOf)}
	for range replicas {
		one := &soaked{proxy: testenv.NewProxy(t, r.redis.Addr())}
		s.replicas = append(s.replicas, one)
		s.start(one)
	}
	for _, one := range s.replicas {
		one.WaitFor("bridge serves", startWithin)
	}
	s.workers(4, s.work)
	stop := s.flow(*soakRate/batch(*soakRate), s.pushBatch)
	for over := time.Now().Add(*soakFor); time.Now().Before(over) && !t.Failed(); {
		s.pause(rest + time.Duration(s.random.Int64N(int64(calm))))
		s.strike()
	}
	s.pause(calm)
	stop()
	s.landed()
	report := s.settled(time.Minute)
	s.report(&report)
	s.checkStore()
	for _, one := range s.replicas {
		s.end(one.Process)
	}
	if wanted := int(soakFor.Seconds()) * *soakRate / 5; report.Pushed < wanted {
		t.Errorf("only %d pushes were confirmed, should be %d", report.Pushed, wanted)
	}
}

// start starts a process for a replica, behind its proxy, and does not wait for it.
func (s *soak) start(one *soaked) {
	s.t.Helper()
	one.Process = s.replica("DQ_REDIS_URL=redis://" + one.proxy.Addr() + "/0")
}

func (s *soak) report(report *whole.Report) {
	s.t.Helper()
	table, unexplained := s.history.Trace(report, s.incidents, lease, slack)
	s.t.Logf("seed %d, %v at %d jobs/s, recoveries as middle and longest, - where the next fault came before it:\n%s", s.seed, *soakFor, *soakRate, table)
	const shown = 20
	for _, a := range unexplained[:min(len(unexplained), shown)] {
		s.t.Logf("nothing explains that %s came again: %s", a.ID, s.history.Story(a.ID))
	}
	s.reportRefusals()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.t.Logf("the test itself has taken %d MB", memory.Sys>>20)
}

// reportRefusals tells how many pushes were refused for which reason, whatever the port of a connection.
func (s *soak) reportRefusals() {
	s.t.Helper()
	port := regexp.MustCompile(`:\d+`)
	times := make(map[string]int64)
	s.reasons.Range(func(reason, n any) bool {
		times[port.ReplaceAllString(reason.(string), "")] += n.(*atomic.Int64).Load()
		return true
	})
	for reason, n := range times {
		s.t.Logf("%d pushes are refused: %s", n, reason)
	}
}

// checkStore runs dqbridge check, beside the replicas.
func (s *soak) checkStore() {
	s.t.Helper()
	p := testenv.Start(s.t, s.env(), "check")
	if code := p.Wait(time.Minute); code != 0 {
		s.t.Errorf("dqbridge check ends with %d: %s", code, p.Stdout())
	}
}
