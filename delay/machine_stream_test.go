package delay

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// note remembers that the push of a stream's message was carried out.
func (m *model) note(o Origin) {
	if o.Mark != "" {
		m.seen[o.Mark] = o.Seq
	}
}

// Stream pushes what a stream sends: a new message, or one that it has sent before, beside one that came otherwise.
func (m *storeMachine) Stream(t *rapid.T) {
	var jobs []Job
	for range rapid.IntRange(1, 2).Draw(t, "messages") {
		if n := len(m.model.sent); n > 0 && rapid.Bool().Draw(t, "again") {
			jobs = append(jobs, m.model.sent[rapid.IntRange(0, n-1).Draw(t, "message")])
			continue
		}
		j := m.drawJob(t)
		m.model.lastSent++
		seq := m.model.lastSent
		j.Origin = Origin{Seq: seq, Mark: fmt.Sprintf("%d@x", seq), Generated: rapid.Bool().Draw(t, "generated")}
		m.model.sent = append(m.model.sent, j)
		jobs = append(jobs, j)
	}
	if rapid.Bool().Draw(t, "another") {
		jobs = append(jobs, m.drawJob(t))
	}
	for i, p := range m.store.Push(m.ctx, jobs) {
		m.pushed(t, jobs[i], p)
	}
}

// Forget is what comes of an ack floor: the stream will send nothing up to it again.
func (m *storeMachine) Forget(t *rapid.T) {
	last := rapid.Uint64Range(0, m.model.lastSent).Draw(t, "last")
	if err := m.store.Forget(m.ctx, last); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(m.model.seen, func(_ string, seq uint64) bool { return seq <= last })
	m.model.sent = slices.DeleteFunc(m.model.sent, func(j Job) bool { return j.Origin.Seq <= last && last > 0 })
}

// checkSeen holds the marks that the store knows against the model's.
func (m *storeMachine) checkSeen(t *rapid.T) {
	found := map[string]uint64{}
	for b := range m.store.buckets {
		for _, z := range m.client.ZRangeWithScores(m.ctx, m.store.buckets[b].seen, 0, -1).Val() {
			found[z.Member.(string)] = uint64(z.Score)
		}
	}
	if !maps.Equal(found, m.model.seen) {
		t.Fatalf("store knows the stream messages %v, model %v", found, m.model.seen)
	}
}

// Undo takes deliveries back whose stream turned out to be full.
func (m *storeMachine) Undo(t *rapid.T) {
	leases := m.leases(t)
	done, err := m.store.Undo(m.ctx, leases)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		j := m.model.jobs[l.ID]
		open := j != nil && j.state == InFlight && j.token == l.Token
		if done[i] != open {
			t.Fatalf("undo %+v: %v, model %v", l, done[i], j)
		}
		if !open {
			continue
		}
		if !j.leased {
			j.n--
		}
		j.state, j.leased = Ready, false
	}
}
