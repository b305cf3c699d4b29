package bench

import "fmt"

// Result is what a workload showed.
type Result struct {
	Workload string `json:"workload"`
	Jobs     int    `json:"jobs"`
	// Seconds are those of the measured part, and PerSecond is its rate.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// PushedPerSecond is the rate of pushing.
	PushedPerSecond float64 `json:"pushed_per_second"`
	// Delivered is how many jobs came, where workers took some.
	Delivered int `json:"delivered"`
	// Lateness of first deliveries, ms; a negative one is early.
	Min float64 `json:"lateness_min_ms"`
	P50 float64 `json:"lateness_p50_ms"`
	P99 float64 `json:"lateness_p99_ms"`
	Max float64 `json:"lateness_max_ms"`
	// BytesPerJob is what a pending job takes in Redis, where that was measured.
	BytesPerJob float64 `json:"bytes_per_job,omitempty"`
	// What should not be: jobs that never came, came before they were due, or came again.
	Lost  int `json:"lost"`
	Early int `json:"early"`
	Twice int `json:"twice"`
}

// Faults says what should not have been, or nil.
func (r *Result) Faults() error {
	if r.Lost+r.Early+r.Twice > 0 {
		return fmt.Errorf("%d lost, %d early, %d twice", r.Lost, r.Early, r.Twice)
	}
	return nil
}
