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

// storedOf reads rows as jobs. What cannot be read is left out.
func (s *Store) storedOf(rows []any) []Stored {
	jobs := make([]Stored, 0, len(rows)/storedRow)
	for ; len(rows) >= storedRow; rows = rows[storedRow:] {
		if job, err := s.storedJob(rows); err == nil {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// storedRow is how many entries a stored job has in a reply: id, state, score, value of tries, record and body.
const storedRow = 6

// storedJob reads one row.
func (s *Store) storedJob(row []any) (Stored, error) {
	id := unpackID(text(row[0]))
	job := Stored{State: State(text(row[1])), Delivery: Delivery{Job: Job{ID: id}, Bucket: s.BucketOf(id)}}
	if err := decodeRecord(&job.Delivery, text(row[4]), text(row[5])); err != nil {
		return job, err
	}
	if ms := number(row[2]); ms > 0 {
		job.At = time.UnixMilli(ms)
	}
	if value := text(row[3]); value != "" {
		t := parseTry(value)
		job.Attempts, job.Token, job.Serial = t.n-t.base, t.token, t.n
		if t.phase == "l" {
			job.Attempts++ // a delivery that is not certain yet is in flight as its attempt
		}
		if job.State == Dead {
			job.Reason = t.reason
		}
	}
	return job, nil
}

// Get reads a job, ErrNotFound where there is none.
func (s *Store) Get(ctx context.Context, id string) (Stored, error) {
	c := s.bucketCall(getScript, s.BucketOf(id), 1)
	c.args = append(c.args, packID(id))
	if err := s.send(ctx, c); err != nil {
		return Stored{}, fmt.Errorf("get job: %w", err)
	}
	reply := list(c.reply)
	if len(reply) != 2 || len(list(reply[1])) < storedRow {
		return Stored{}, ErrNotFound
	}
	job, err := s.storedJob(list(reply[1]))
	if err != nil {
		return Stored{}, fmt.Errorf("get job: %w", err)
	}
	return job, nil
}
