package delay

import (
	"context"
	"fmt"
	"time"
)

// Stored is a job as it lies in the store.
type Stored struct {
	Delivery
	State State
	// At is the next due time, the deadline of a flight, or when the job died; zero where it is ready.
	At time.Time
	// Attempts is the number of deliveries within the present budget.
	Attempts int
	// Reason is why it is dead.
	Reason string
}

// storedOf reads rows of id, state, score, value of tries, record and body. What cannot be read is left out.
func (s *Store) storedOf(rows []any) []Stored {
	jobs := make([]Stored, 0, len(rows)/6)
	for ; len(rows) >= 6; rows = rows[6:] {
		id := unpackID(text(rows[0]))
		job := Stored{State: State(text(rows[1])), Delivery: Delivery{Job: Job{ID: id}, Bucket: s.BucketOf(id)}}
		if decodeRecord(&job.Delivery, text(rows[4]), text(rows[5])) != nil {
			continue
		}
		if ms := number(rows[2]); ms > 0 {
			job.At = time.UnixMilli(ms)
		}
		if value := text(rows[3]); value != "" {
			t := parseTry(value)
			job.Attempts, job.Token, job.Serial = t.n-t.base, t.token, t.n
			if t.phase == "l" {
				job.Attempts++ // a delivery that is not certain yet is in flight as its attempt
			}
			if job.State == Dead {
				job.Reason = t.reason
			}
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// Get reads a job, ErrNotFound where there is none.
func (s *Store) Get(ctx context.Context, id string) (Stored, error) {
	c := s.bucketCall(getScript, s.BucketOf(id), 1)
	c.args = append(c.args, packID(id))
	if err := s.send(ctx, c); err != nil {
		return Stored{}, fmt.Errorf("get job: %w", err)
	}
	reply := list(c.reply)
	if len(reply) != 2 || len(list(reply[1])) == 0 {
		return Stored{}, ErrNotFound
	}
	jobs := s.storedOf(list(reply[1]))
	if len(jobs) == 0 {
		return Stored{}, fmt.Errorf("get job %s: its record cannot be read", id)
	}
	return jobs[0], nil
}
