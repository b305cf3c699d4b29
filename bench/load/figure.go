// Package load puts the same work on every peer and says what came of it.
package load

// Figure is what one run of one workload on one peer showed.
type Figure struct {
	Work  string `json:"work"`
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Workers is the number of workers where that was tried out.
	Workers int `json:"workers,omitempty"`
	Jobs    int `json:"jobs"`
	// Seconds and PerSecond are of the measured part.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// Asked is the rate of pushing that was asked for, where one was: PerSecond is what was reached.
	Asked float64 `json:"asked_per_second,omitempty"`
	// FromFirst is jobs a second from the first delivery on instead of the due moment, in a drain.
	FromFirst float64 `json:"per_second_from_first_delivery,omitempty"`
	// CPU is µs a job of all processes together, and CPUOf of each; "client" is the load generator.
	CPU   float64            `json:"cpu_us_per_job"`
	CPUOf map[string]float64 `json:"cpu_us_per_job_of,omitempty"`
	// Others is the share of the machine that was used by what is no part of the run: the more, the less a rate means.
	Others float64 `json:"others"`
	// Lateness is of first deliveries, where there were any.
	Lateness *Spread `json:"lateness,omitempty"`
	// Bytes are those of one pending job.
	Bytes float64 `json:"bytes_per_job,omitempty"`
	// What should not be: jobs that never came, came again, or came before they were due.
	Lost  int `json:"lost"`
	Twice int `json:"twice"`
	Early int `json:"early"`
}

// Spread is the distribution of delivered minus due, in ms; negative is early.
type Spread struct {
	Min float64 `json:"min_ms"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
	// Curve has the lateness at each hundredth of the jobs, and last the longest.
	Curve []float64 `json:"curve_ms"`
}
