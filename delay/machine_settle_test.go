package delay

import (
	"bytes"
	"errors"
	"time"

	"pgregory.net/rapid"
)

// ack draws a verb's subject: a delivery, or an id alone.
func (m *storeMachine) ack(t *rapid.T) Ack {
	if len(m.model.acks) > 0 && rapid.Bool().Draw(t, "by ack") {
		return rapid.SampledFrom(m.model.acks).Draw(t, "ack")
	}
	return Ack{ID: rapid.SampledFrom(modelIDs).Draw(t, "id")}
}

func (m *storeMachine) pushOf(id string) uint64 {
	record := m.client.HGet(m.ctx, m.store.buckets[m.store.BucketOf(id)].fixed[keyPool], packID(id)).Val()
	var d Delivery
	if decodeRecord(&d, record, "") != nil {
		return 0
	}
	return d.Push
}

func (m *storeMachine) Finish(t *rapid.T) {
	a := m.ack(t)
	push := m.pushOf(a.ID)
	r := m.store.Finish(m.ctx, []Ack{a})[0]
	j := m.model.jobs[a.ID]
	switch {
	case j == nil:
		if r.Err != nil || r.Finished {
			t.Fatalf("finish %+v, which is not there: %+v", a, r)
		}
	case a.Push != 0 && a.Push != push:
		if !errors.Is(r.Err, ErrOtherPush) {
			t.Fatalf("finish %+v of push %d: %+v", a, push, r)
		}
	default:
		if r.Err != nil || !r.Finished || (r.Flight != nil) != (j.state == InFlight) || r.Topic != j.job.Topic {
			t.Fatalf("finish %+v: %+v, model %v", a, r, j)
		}
		delete(m.model.jobs, a.ID)
	}
}

// refusal gives the error that a verb about a delivery must get for reasons of its ack, nil where it gets through.
func (m *storeMachine) refusal(a Ack, j *modelJob, push uint64) error {
	switch {
	case j == nil:
		return ErrNotFound
	case a.Push != 0 && a.Push != push:
		return ErrOtherPush
	case a.Token != 0 && a.Token != j.token:
		return ErrOldAttempt
	case a.Token == 0 && j.early(m.model.now):
		return ErrState // nobody can have it yet
	case j.state == InFlight && j.leased && j.job.TTR == 0:
		delete(m.model.jobs, a.ID) // its worker has it, and with that it is gone
		return ErrNotFound
	}
	return nil
}

func (j *modelJob) certain() {
	if j.leased {
		j.leased, j.n = false, j.n+1
	}
}

func (m *storeMachine) Release(t *rapid.T) {
	a := m.ack(t)
	pause := rapid.IntRange(0, 2).Draw(t, "pause")
	a.HasDelay = rapid.Bool().Draw(t, "delayed")
	if a.HasDelay {
		a.Delay = time.Duration(pause) * unit
	}
	push := m.pushOf(a.ID)
	r := m.store.Release(m.ctx, []Ack{a})[0]
	j := m.model.jobs[a.ID]
	want := m.refusal(a, j, push)
	same := want == nil && j.state != InFlight && a.Token != 0 && j.released
	if want == nil && j.state != InFlight && !same {
		want = ErrState
	}
	if !errors.Is(r.Err, want) {
		t.Fatalf("release %+v: %+v, want %v, model %v", a, r, want, j)
	}
	if want == nil && !same {
		j.certain()
		j.end(m.model.now, pause, a.HasDelay)
		j.released = true
		if (r.Died != nil) != (j.state == Dead) {
			t.Fatalf("release %+v: %+v, model %v", a, r, j)
		}
	}
	if want == nil && r.State != j.state {
		t.Fatalf("release %+v: state %s, model %v", a, r.State, j)
	}
}

func (m *storeMachine) Touch(t *rapid.T) {
	a := m.ack(t)
	push := m.pushOf(a.ID)
	r := m.store.Touch(m.ctx, []Ack{a})[0]
	j := m.model.jobs[a.ID]
	want := m.refusal(a, j, push)
	if want == nil && j.state != InFlight {
		want = ErrState
	}
	if !errors.Is(r.Err, want) {
		t.Fatalf("touch %+v: %+v, want %v, model %v", a, r, want, j)
	}
	if want == nil && j.job.TTR > 0 {
		j.certain()
		j.deadline = m.model.now + int(j.job.TTR/unit)
	}
}

func (m *storeMachine) Bury(t *rapid.T) {
	a := m.ack(t)
	a.Reason = "buried: no good"
	push := m.pushOf(a.ID)
	r := m.store.Bury(m.ctx, []Ack{a})[0]
	j := m.model.jobs[a.ID]
	early := j != nil && a.Token == 0 && j.early(m.model.now)
	want := m.refusal(a, j, push)
	if early {
		want = nil // it may be buried all the same
	}
	same := want == nil && j.state == Dead && a.Token != 0 && j.buried
	if want == nil && !same && j.state == Dead {
		want = ErrState
	}
	if !errors.Is(r.Err, want) {
		t.Fatalf("bury %+v: %+v, want %v, model %v", a, r, want, j)
	}
	if want == nil && !same {
		if !early {
			j.certain()
		}
		j.state, j.leased, j.released, j.buried = Dead, false, false, true
		if r.Died == nil || r.Died.Reason != "buried: no good" || r.Died.ID != a.ID || !bytes.Equal(r.Died.Body, j.job.Body) {
			t.Fatalf("bury %+v: %+v", a, r)
		}
	}
}
