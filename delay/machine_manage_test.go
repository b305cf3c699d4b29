package delay

import (
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"
)

func (m *storeMachine) Kick(t *rapid.T) {
	id := rapid.SampledFrom(modelIDs).Draw(t, "id")
	k := m.store.Kick(m.ctx, []string{id})[0]
	j := m.model.jobs[id]
	switch {
	case j == nil:
		if !errors.Is(k.Err, ErrNotFound) {
			t.Fatalf("kick %q, which is not there: %+v", id, k)
		}
	case j.state != Dead:
		if !errors.Is(k.Err, ErrState) || k.State != j.state {
			t.Fatalf("kick %q: %+v, model %v", id, k, j)
		}
	default:
		if k.Err != nil || k.Topic != j.job.Topic {
			t.Fatalf("kick %q: %+v, model %v", id, k, j)
		}
		j.state, j.n, j.first, j.released, j.buried, j.token = Ready, 0, m.model.now, false, false, 0
		j.moved = j.moved || j.job.Expires > 0
	}
}

func (m *storeMachine) Reschedule(t *rapid.T) {
	id := rapid.SampledFrom(modelIDs).Draw(t, "id")
	delay := rapid.IntRange(0, 2).Draw(t, "delay")
	r, err := m.store.Reschedule(m.ctx, id, time.Duration(delay)*unit, time.Time{})
	j := m.model.jobs[id]
	var want error
	switch {
	case j == nil:
		want = ErrNotFound
	case j.state == InFlight && j.leased:
		want = ErrLeased
	case j.state == InFlight || j.state == Dead:
		want = ErrState
	}
	if !errors.Is(err, want) {
		t.Fatalf("reschedule %q: %v, want %v, model %v", id, err, want, j)
	}
	if want != nil {
		return
	}
	j.due = m.model.now + delay
	j.state = Ready
	if delay > 0 {
		j.state = Delayed
	}
	if j.n == 0 {
		j.first, j.moved = j.due, true
	}
	if r.State != j.state {
		t.Fatalf("reschedule %q: %+v, model %v", id, r, j)
	}
}

func (m *storeMachine) Purge(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	state := rapid.SampledFrom([]State{Delayed, Ready, InFlight, Dead}).Draw(t, "state")
	want := m.in(topic, state)
	n := 0
	if state == Ready {
		for b := range m.store.Buckets() {
			removed, _, err := m.store.PurgeReady(m.ctx, b, topic)
			if err != nil {
				t.Fatal(err)
			}
			n += removed
		}
	} else {
		var err error
		if n, _, err = m.store.Purge(m.ctx, topic, state, modelIDs); err != nil {
			t.Fatal(err)
		}
	}
	if n != len(want) {
		t.Fatalf("purge of %s %s removed %d, want %v", topic, state, n, want)
	}
	for _, id := range want {
		delete(m.model.jobs, id)
	}
}

// Compact takes away whatever stale ids lists have.
func (m *storeMachine) Compact(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	for b := range m.store.Buckets() {
		if _, err := m.store.Compact(m.ctx, b, topic, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *storeMachine) Expire(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	died, _, err := m.store.Expire(m.ctx, topic, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range died {
		if j := m.model.jobs[d.ID]; j == nil || j.state != Ready || !j.late(m.model.now) {
			t.Fatalf("job %q expired, model %v", d.ID, j)
		}
		m.model.jobs[d.ID].state = Dead
	}
	for _, id := range m.in(topic, Ready) {
		if j := m.model.jobs[id]; j.late(m.model.now) {
			t.Fatalf("job %q did not expire, model %v", id, j)
		}
	}
}

// in gives the ids of the model's jobs of a topic in a state.
func (m *storeMachine) in(topic string, state State) []string {
	return slices.DeleteFunc(m.model.ids(), func(id string) bool {
		j := m.model.jobs[id]
		return j.job.Topic != topic || j.state != state
	})
}

func (m *storeMachine) List(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	state := rapid.SampledFrom([]State{Delayed, Ready, InFlight, Dead}).Draw(t, "state")
	var ids []string
	var from []Place
	last := time.Time{}
	for {
		page, err := m.store.List(m.ctx, state, topic, from, rapid.IntRange(1, 3).Draw(t, "limit"))
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page.Jobs {
			ids = append(ids, job.ID)
			if job.State != state || state != Ready && job.At.Before(last) {
				t.Fatalf("listed %q %s at %s behind %s", job.ID, job.State, job.At, last)
			}
			last = job.At
		}
		if from = page.Next; from == nil {
			break
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids) // a stale entry of a list may stand for a job that is ready again
	if want := m.in(topic, state); !slices.Equal(ids, want) {
		t.Fatalf("list of %s %s gave %q, want %q", topic, state, ids, want)
	}
}
