package delay

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// storeMachine runs the same steps on the store and on the model.
type storeMachine struct {
	ctx    context.Context
	store  *Store
	model  *model
	client redis.UniversalClient
}

func newStoreMachine(t *testing.T, client redis.UniversalClient, prefix string) *storeMachine {
	t.Helper()
	m := &storeMachine{ctx: t.Context(), client: client, model: &model{jobs: map[string]*modelJob{}, seen: map[string]uint64{}}}
	m.store = NewStore(client, StoreOptions{Prefix: prefix, Buckets: 2, MaxDelay: 100 * unit})
	// Due times are rounded up to a millisecond: a step is a little longer than a unit, so that it passes them.
	m.store.shift = func() time.Duration { return time.Duration(m.model.now) * (unit + 10*time.Millisecond) }
	return m
}

func (m *storeMachine) drawJob(t *rapid.T) Job {
	units := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * unit
	}
	j := Job{
		ID:          rapid.SampledFrom(modelIDs).Draw(t, "id"),
		Topic:       rapid.SampledFrom(modelTopics).Draw(t, "topic"),
		Delay:       units("delay", 2),
		TTR:         units("ttr", 2),
		MaxAttempts: rapid.IntRange(0, 2).Draw(t, "max"),
		Body:        bytes.Repeat([]byte("b"), rapid.SampledFrom([]int{0, 1, 100, maxInline, maxInline + 1}).Draw(t, "size")),
		Raw:         rapid.Bool().Draw(t, "raw"),
		Replace:     rapid.Bool().Draw(t, "replace"),
	}
	if rapid.Bool().Draw(t, "expires") {
		j.Expires = units("expires", 1) + unit/2
	}
	for range rapid.IntRange(0, 2).Draw(t, "pauses") {
		j.Backoff = append(j.Backoff, units("pause", 2))
	}
	if rapid.Bool().Draw(t, "headers") {
		j.Headers = []byte("A: m9 b1\r\n")
	}
	return j
}

func (m *storeMachine) Push(t *rapid.T) {
	jobs := []Job{m.drawJob(t)}
	if rapid.Bool().Draw(t, "two") {
		jobs = append(jobs, m.drawJob(t))
	}
	for i, p := range m.store.Push(m.ctx, jobs) {
		m.pushed(t, jobs[i], p)
	}
}

func (m *storeMachine) pushed(t *rapid.T, j Job, p Pushed) {
	old := m.model.jobs[j.ID]
	if _, again := m.model.seen[j.Origin.Mark]; again {
		if p.Err != nil || !p.Duplicate || p.State != Unknown {
			t.Fatalf("push %q of stream message %s again: %+v", j.ID, j.Origin.Mark, p)
		}
		return
	}
	var want error
	switch {
	case old == nil:
	case old.job.Topic != j.Topic:
		want = ErrOtherTopic
	case j.Replace && old.state == InFlight && old.leased:
		want = ErrLeased
	case j.Replace && old.state == InFlight:
		want = ErrState
	}
	if !errors.Is(p.Err, want) {
		t.Fatalf("push %q: %v, want %v, model %v", j.ID, p.Err, want, old)
	}
	if want != nil {
		return
	}
	if old == nil || j.Replace || !j.Origin.Generated {
		m.model.note(j.Origin)
	}
	if old != nil && !j.Replace {
		if !p.Duplicate || p.State != old.state {
			t.Fatalf("push %q again: %+v, want a duplicate of %v", j.ID, p, old)
		}
		return
	}
	state := Delayed
	if j.Delay == 0 {
		state = Ready
	}
	if p.State != state || p.Duplicate || p.Replaced != (old != nil) {
		t.Fatalf("push %q: %+v, want it %s", j.ID, p, state)
	}
	due := m.model.now + int(j.Delay/unit)
	m.model.jobs[j.ID] = &modelJob{job: j, state: state, due: due, first: due}
}

func (m *storeMachine) Advance(t *rapid.T) {
	m.model.now += rapid.IntRange(1, 2).Draw(t, "units")
	m.PromoteAll(t)
}

func (m *storeMachine) PromoteAll(t *rapid.T) {
	offer := Offer{Owner: "0.test", Soon: rapid.SampledFrom([]time.Duration{0, unit + unit/2}).Draw(t, "soon")}
	for _, topic := range modelTopics {
		if n := rapid.SampledFrom([]int{0, 0, 1, 100}).Draw(t, "offered"); n > 0 {
			offer.Topics = append(offer.Topics, Want{Topic: topic, N: n, Patient: rapid.Bool().Draw(t, "patient")})
		}
	}
	for b := range m.store.Buckets() {
		p, err := m.store.Promote(m.ctx, b, offer, nil)
		if err != nil {
			t.Fatal(err)
		}
		m.leasedAtOnce(t, b, offer, p)
		for _, d := range p.Died {
			if (d.Reason != "max_attempts" || d.Attempt != d.MaxAttempts) && (d.Reason != "expired" || d.Expires == 0) {
				t.Fatalf("job %q died with reason %q at attempt %d of %d", d.ID, d.Reason, d.Attempt, d.MaxAttempts)
			}
		}
	}
	m.model.promote()
}

func (m *storeMachine) Reserve(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	n := rapid.SampledFrom([]int{1, 100}).Draw(t, "n")
	wants := [][]Want{{{Topic: topic, N: n}}, {{Topic: topic, N: n}}}
	results, err := m.store.Reserve(m.ctx, "0.test", wants)
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range results {
		for _, d := range bucket.Died {
			j := m.model.jobs[d.ID]
			if j == nil || j.state != Ready || !j.late(m.model.now) || d.Reason != "expired" {
				t.Fatalf("job %q died for %q, model %v", d.ID, d.Reason, j)
			}
			j.state = Dead
		}
	}
	for b, bucket := range results {
		for _, d := range bucket.Topics[0].Deliveries {
			j := m.model.jobs[d.ID]
			if j == nil || j.state != Ready || j.late(m.model.now) || d.Topic != topic {
				t.Fatalf("reserved %q, which the model has as %v", d.ID, j)
			}
			m.takeOff(t, &d)
		}
		if n == 100 {
			for _, id := range m.model.ids() {
				if j := m.model.jobs[id]; j.state == Ready && j.job.Topic == topic && bucketOf(id, 2) == b {
					t.Fatalf("reserve did not give %q, which is ready", id)
				}
			}
		}
	}
}

// leasedAtOnce checks the jobs of offered topics that a promotion leased: no more than was offered, none that is due later
// than soon, and none where others of the topic were ready in the bucket.
func (m *storeMachine) leasedAtOnce(t *rapid.T, bucket int, offer Offer, p Promotion) {
	for _, w := range offer.Topics {
		n, before := 0, 0
		for _, j := range m.model.jobs {
			if j.state == Ready && j.job.Topic == w.Topic && bucketOf(j.job.ID, 2) == bucket {
				before++
			}
		}
		for i := range p.Leased {
			d := &p.Leased[i]
			if d.Topic != w.Topic {
				continue
			}
			n++
			j := m.model.jobs[d.ID]
			if j == nil || j.state != Delayed || j.due > m.model.now+int(offer.Soon/unit) || bucketOf(d.ID, 2) != bucket || before > 0 {
				t.Fatalf("leased %q at once, which the model has as %v, with %d ready before it", d.ID, j, before)
			}
			if ahead := d.Next.Sub(p.Clock); d.Next.IsZero() != (j.due <= m.model.now) || !d.Next.IsZero() && !w.Patient || !d.Next.IsZero() && (ahead <= 0 || ahead > offer.Soon) {
				t.Fatalf("leased %q for %v, at %v, model %v", d.ID, d.Next, p.Clock, j)
			}
			m.takeOff(t, d)
		}
		if n > w.N {
			t.Fatalf("leased %d jobs of %q, offered were %d", n, w.Topic, w.N)
		}
	}
}

// takeOff holds a delivery against the model's job, which is leased from now on.
func (m *storeMachine) takeOff(t *rapid.T, d *Delivery) {
	j := m.model.jobs[d.ID]
	if d.Topic != j.job.Topic || d.Attempt != j.n+1 || d.Token <= j.token || !bytes.Equal(d.Body, j.job.Body) ||
		!bytes.Equal(d.Headers, j.job.Headers) || d.TTR != j.job.TTR || d.Raw != j.job.Raw || !j.moved && d.Delay != j.job.Delay || d.Expires != j.job.Expires {
		t.Fatalf("leased %+v, want attempt %d of %v", d.ID, j.n+1, j)
	}
	j.released = false
	j.state, j.leased, j.token, j.push = InFlight, true, d.Token, d.Push
	j.deadline = m.model.now + 1 // a lease is shorter than a unit
	if j.ahead = !d.Next.IsZero(); j.ahead {
		j.deadline = j.due + 1
	}
	m.model.acks = append(m.model.acks, Ack{ID: d.ID, Push: d.Push, Token: d.Token})
}

// leases draws some deliveries to tell an outcome of, old ones among them.
func (m *storeMachine) leases(t *rapid.T) []Lease {
	if len(m.model.acks) == 0 {
		t.Skip("nothing delivered")
	}
	seen := map[string]bool{}
	var leases []Lease
	for range rapid.IntRange(1, 3).Draw(t, "leases") {
		a := rapid.SampledFrom(m.model.acks).Draw(t, "ack")
		if seen[a.ID] {
			continue
		}
		seen[a.ID] = true
		l := Lease{ID: a.ID, Token: a.Token}
		if j := m.model.jobs[a.ID]; j != nil {
			l.TTR = j.job.TTR
		}
		leases = append(leases, l)
	}
	return leases
}

func (m *storeMachine) open(l Lease) *modelJob {
	j := m.model.jobs[l.ID]
	if j == nil || j.state != InFlight || !j.leased || j.token != l.Token {
		return nil
	}
	return j
}

func (j *modelJob) confirmed(token uint64) bool {
	return j.state == InFlight && !j.leased && j.token == token
}

func (m *storeMachine) Confirm(t *rapid.T) {
	leases := m.leases(t)
	done, err := m.store.Confirm(m.ctx, leases)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		j := m.open(l)
		again := m.model.jobs[l.ID] != nil && m.model.jobs[l.ID].confirmed(l.Token)
		if done[i] != (j != nil || again) {
			t.Fatalf("confirm %+v: %v, model %v", l, done[i], m.model.jobs[l.ID])
		}
		if j == nil {
			continue
		}
		if j.job.TTR == 0 {
			delete(m.model.jobs, l.ID)
			continue
		}
		j.leased, j.n, j.deadline = false, j.n+1, m.model.now+int(j.job.TTR/unit)
	}
}

func (m *storeMachine) Return(t *rapid.T) {
	leases := m.leases(t)
	done, err := m.store.Return(m.ctx, leases)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		j := m.open(l)
		if done[i] != (j != nil) {
			t.Fatalf("return %+v: %v, model %v", l, done[i], m.model.jobs[l.ID])
		}
		if j != nil {
			j.state, j.leased = Ready, false
		}
	}
}
