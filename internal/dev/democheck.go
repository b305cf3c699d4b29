package dev

import (
	"errors"
	"fmt"
	"time"
)

// ttrSlack: the TTR starts when the server has taken the message, which is a moment before the worker sees it, so two
// arrivals may lie a little closer than the TTR without a promise broken.
const ttrSlack = 100 * time.Millisecond

// check gives every promise that was not kept.
func check(jobs []*demoJob) error {
	var errs []error
	for _, job := range jobs {
		for _, fault := range job.faults() {
			errs = append(errs, fmt.Errorf("job %q (%s): %s", job.name, job.id, fault))
		}
	}
	return errors.Join(errs...)
}

func (j *demoJob) faults() []string {
	faults := j.failures
	want := 1
	switch j.plan {
	case planCancel:
		want = 0
	case planWait:
		want = 2
	default:
	}
	if len(j.deliveries) < want || want == 0 && len(j.deliveries) > 0 {
		faults = append(faults, fmt.Sprintf("delivered %d times, not %d", len(j.deliveries), want))
	}
	if j.finished.IsZero() {
		faults = append(faults, "its finish was not confirmed")
	}
	for i, d := range j.deliveries {
		faults = append(faults, j.deliveryFaults(i, d)...)
	}
	return faults
}

func (j *demoJob) deliveryFaults(i int, d delivery) []string {
	var faults []string
	if early := d.due.Sub(d.at); early > 0 {
		faults = append(faults, fmt.Sprintf("delivered %v before the due time it names", early))
	}
	if early := j.earliest.Sub(d.at); early > 0 {
		faults = append(faults, fmt.Sprintf("delivered %v too early", early))
	}
	if d.attempt != i+1 {
		faults = append(faults, fmt.Sprintf("delivery number %d says attempt %d", i+1, d.attempt))
	}
	if !j.finished.IsZero() && d.at.After(j.finished) {
		faults = append(faults, fmt.Sprintf("delivered again %v after its finish was confirmed", d.at.Sub(j.finished)))
	}
	if i > 0 {
		if gap := d.at.Sub(j.deliveries[i-1].at); gap < demoTTR-ttrSlack {
			faults = append(faults, fmt.Sprintf("delivered again after %v, its TTR is %v", gap, demoTTR))
		}
	}
	return faults
}
