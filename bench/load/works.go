package load

import "context"

// Work is one workload.
type Work struct {
	Name string
	// Title says what is measured.
	Title string
	// Workers: numbers of workers are tried out, and the best one counts.
	Workers bool
	Do      func(ctx context.Context, r *Run) (Figure, error)
}

// Works are all of them, in the order of the table.
func Works() []Work {
	return []Work{
		{"push", "confirmed single pushes, 64 in flight on one connection", false, Push},
		{"batches", "confirmed pushes in the fastest way there is", false, Batches},
		{"drain", "jobs due at one moment, from that moment until all are delivered and acked", true, Drain},
		{"steady", "pushed with a delay of 1 s, delivered and acked, all at once", true, Steady},
		{"lateness", "500 jobs a second, delays of 1 to 5 s", false, Lateness},
		{"lateness10k", "10,000 jobs a second, delays of 1 to 5 s", false, LatenessFast},
		{"memory", "memory of a pending job", false, Memory},
	}
}
