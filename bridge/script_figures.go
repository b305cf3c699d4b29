package bridge

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// otherScripts stands for the scripts that are not on the way of a job.
const otherScripts = "other"

// scriptFigures tell how long the scripts take, and for how many jobs at once they run. They are read alone after they
// were made.
type scriptFigures struct {
	seconds, jobs map[string]prometheus.Observer
}

func newScriptFigures(m *metrics) scriptFigures {
	f := scriptFigures{make(map[string]prometheus.Observer), make(map[string]prometheus.Observer)}
	seconds := m.histogram("script_seconds", "Time of a round trip to Redis that ran a script, alone or with others.", "script",
		.00025, .0005, .001, .0025, .005, .01, .025, .1, .5, 2)
	jobs := m.histogram("batch_jobs", "Jobs that one round trip to Redis was for.", "script", 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
	for _, name := range []string{"push", "promote", "reserve", "confirm", "return", "finish", "release", "touch", "bury"} {
		f.seconds[name], f.jobs[name] = seconds.WithLabelValues(name), jobs.WithLabelValues(name)
	}
	f.seconds[otherScripts] = seconds.WithLabelValues(otherScripts) // what these are for means nothing
	return f
}

// Called implements delay.Meter.
func (f scriptFigures) Called(script string, jobs int, took time.Duration) {
	seconds := f.seconds[script]
	if seconds == nil {
		seconds = f.seconds[otherScripts]
	}
	seconds.Observe(took.Seconds())
	f.batch(script, jobs)
}

// batch notes for how many jobs a script ran.
func (f scriptFigures) batch(script string, jobs int) {
	if o := f.jobs[script]; o != nil && jobs > 0 {
		o.Observe(float64(jobs))
	}
}
