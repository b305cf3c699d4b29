package delay

import "time"

// Meter hears how long the calls of a store take. Its methods are called from many goroutines and must not block.
type Meter interface {
	// Called: a round trip to Redis ran a script for so many jobs, alone or with other scripts, well or not. 0 jobs: it says
	// nothing of their number.
	Called(script string, jobs int, took time.Duration)
}

// watch has m hear of all calls from now on. It is called before the first one.
func (s *Store) watch(m Meter, now func() time.Time) { s.meter, s.now = m, now }

// measure tells of calls that went together: those of one script stand together.
func (s *Store) measure(calls []*call, began time.Time) {
	took := s.now().Sub(began)
	for len(calls) > 0 {
		script, jobs := calls[0].script, 0
		for len(calls) > 0 && calls[0].script == script {
			jobs += calls[0].jobs
			calls = calls[1:]
		}
		s.meter.Called(script.name, jobs, took)
	}
}
