package dev

import (
	"fmt"
	"io"
	"time"
)

// printer tells the demonstration, one line a step. What cannot be written is lost: the result does not hang on it.
type printer struct {
	out   io.Writer
	begin time.Time
}

func (p *printer) header() {
	p.say("The demonstration: eight jobs on topic %q, and a worker that takes them.\n", demoTopic)
	fmt.Fprintf(p.out, "%9s  %-16s %-16s\n", "time", "what", "job") //nolint:errcheck // see printer
}

func (p *printer) say(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...) //nolint:errcheck // see printer
}

func (p *printer) line(at time.Time, what, job, detail string) {
	fmt.Fprintf(p.out, "%7.3f s  %-16s %-16s %s\n", at.Sub(p.begin).Seconds(), what, job, detail) //nolint:errcheck // see printer
}

// delivered is called with now as the last of the job's deliveries.
func (p *printer) delivered(job *demoJob, now delivery) {
	if len(job.deliveries) == 1 {
		p.line(now.at, "delivered", job.name, millis(now.at.Sub(now.due))+" after it was due")
		return
	}
	gap := now.at.Sub(job.deliveries[len(job.deliveries)-2].at)
	p.line(now.at, "delivered again", job.name, fmt.Sprintf("attempt %d, after %.3f s", now.attempt, gap.Seconds()))
}

func (p *printer) summary(jobs []*demoJob) {
	var delivered int
	var latest, again time.Duration
	for _, job := range jobs {
		for i, d := range job.deliveries {
			if i == 0 {
				delivered++
				latest = max(latest, d.at.Sub(d.due))
			} else {
				again = d.at.Sub(job.deliveries[i-1].at)
			}
		}
	}
	p.say("\nAll as promised: %d jobs delivered, none early, none more than %s late; the unanswered one came again\n"+
		"after %.3f s; every finish was confirmed, nothing came after it, and the cancelled job never came.",
		delivered, millis(latest), again.Seconds())
}

func dueIn(delay time.Duration) string {
	if delay == 0 {
		return "due now"
	}
	return fmt.Sprintf("due in %v", delay)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
