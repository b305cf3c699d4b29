package delay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// unit is the model's step of time: so long that the real time a run takes does not matter beside it.
const unit = 1000 * time.Second

// modelJob is a job as the model sees it.
type modelJob struct {
	job      Job
	state    State
	due      int // unit
	deadline int // unit, in flight
	push     uint64
	token    uint64 // of the last delivery
	leased   bool
	released bool // the last delivery ended by a release
	n        int
}

func (j *modelJob) String() string {
	if j == nil {
		return "none"
	}
	return fmt.Sprintf("{%q %s due %d deadline %d push %d token %d leased %v released %v n %d of %d}", j.job.ID, j.state, j.due,
		j.deadline, j.push, j.token, j.leased, j.released, j.n, j.job.MaxAttempts)
}

// model is the store in Go: one map, no index, no counter.
type model struct {
	now  int
	jobs map[string]*modelJob
	// acks are all deliveries ever made.
	acks []Ack
}

func (m *model) ids() []string {
	ids := make([]string, 0, len(m.jobs))
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// end is what happens to a job whose confirmed delivery is over.
func (j *modelJob) end(now, pause int, pauseGiven bool) {
	if j.job.MaxAttempts > 0 && j.n >= j.job.MaxAttempts {
		j.state = Dead
		return
	}
	if !pauseGiven {
		pause = 0
		if len(j.job.Backoff) > 0 {
			pause = int(j.job.Backoff[min(j.n, len(j.job.Backoff))-1] / unit)
		}
	}
	if pause > 0 {
		j.state, j.due = Delayed, now+pause
		return
	}
	j.state = Ready
}

func (m *model) promote() {
	for _, j := range m.jobs {
		switch {
		case j.state == Delayed && j.due <= m.now:
			j.state = Ready
		case j.state == InFlight && j.deadline <= m.now && j.leased:
			j.state, j.leased = Ready, false
		case j.state == InFlight && j.deadline <= m.now:
			j.end(m.now, 0, false)
		}
	}
}

var (
	modelIDs    = []string{"a", "b b", "c:{}", "ä", "01930000-0000-7000-8000-000000000001", "x y z"}
	modelTopics = []string{"t", "mail.eu", "m3"}
)

// storeMachine runs the same steps on the store and on the model.
type storeMachine struct {
	ctx   context.Context
	store *Store
	model *model
	redis *testenv.RedisServer
}

func newStoreMachine(t *testing.T, redis *testenv.RedisServer, prefix string) *storeMachine {
	m := &storeMachine{ctx: t.Context(), redis: redis, model: &model{jobs: map[string]*modelJob{}}}
	m.store = NewStore(redis.Client(), StoreOptions{Prefix: prefix, Buckets: 2, MaxDelay: 100 * unit})
	// Due times are rounded up to a millisecond: a step is a little longer than a unit, so that it passes them.
	m.store.shift = func() time.Duration { return time.Duration(m.model.now) * (unit + 10*time.Millisecond) }
	return m
}

func (m *storeMachine) drawJob(t *rapid.T) Job {
	units := func(label string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * unit
	}
	j := Job{
		ID:          rapid.SampledFrom(modelIDs).Draw(t, "id"),
		Topic:       rapid.SampledFrom(modelTopics).Draw(t, "topic"),
		Delay:       units("delay", 0, 2),
		TTR:         units("ttr", 0, 2),
		MaxAttempts: rapid.IntRange(0, 2).Draw(t, "max"),
		Body:        bytes.Repeat([]byte("b"), rapid.SampledFrom([]int{0, 1, 100, maxInline, maxInline + 1}).Draw(t, "size")),
		Raw:         rapid.Bool().Draw(t, "raw"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "pauses") {
		j.Backoff = append(j.Backoff, units("pause", 0, 2))
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
		j := jobs[i]
		old := m.model.jobs[j.ID]
		switch {
		case old == nil:
			if p.Err != nil || p.Duplicate {
				t.Fatalf("push %q: %+v, want it stored", j.ID, p)
			}
			state := Delayed
			if j.Delay == 0 {
				state = Ready
			}
			if p.State != state {
				t.Fatalf("push %q: state %s, want %s", j.ID, p.State, state)
			}
			m.model.jobs[j.ID] = &modelJob{job: j, state: state, due: m.model.now + int(j.Delay/unit)}
		case old.job.Topic != j.Topic:
			if !errors.Is(p.Err, ErrOtherTopic) {
				t.Fatalf("push %q under another topic: %+v", j.ID, p)
			}
		default:
			if p.Err != nil || !p.Duplicate || p.State != old.state {
				t.Fatalf("push %q again: %+v, want a duplicate that is %s", j.ID, p, old.state)
			}
		}
	}
}

func (m *storeMachine) Advance(t *rapid.T) {
	m.model.now += rapid.IntRange(1, 2).Draw(t, "units")
	m.PromoteAll(t)
}

func (m *storeMachine) PromoteAll(t *rapid.T) {
	for b := range m.store.Buckets() {
		p, err := m.store.Promote(m.ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range p.Died {
			if d.Reason != "max_attempts" || d.Attempt != d.MaxAttempts {
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
		for _, d := range bucket[0].Deliveries {
			j := m.model.jobs[d.ID]
			if j == nil || j.state != Ready {
				t.Fatalf("reserved %q, which the model has as %v", d.ID, j)
			}
			if d.Topic != topic || d.Attempt != j.n+1 || d.Token <= j.token || !bytes.Equal(d.Body, j.job.Body) ||
				!bytes.Equal(d.Headers, j.job.Headers) || d.TTR != j.job.TTR || d.Raw != j.job.Raw || d.Delay != j.job.Delay {
				t.Fatalf("reserved %+v, want attempt %d of %v", d.Job.ID, j.n+1, j)
			}
			j.state, j.leased, j.token, j.push = InFlight, true, d.Token, d.Push
			j.released = false
			j.deadline = m.model.now + 1 // a lease is shorter than a unit
			m.model.acks = append(m.model.acks, Ack{ID: d.ID, Push: d.Push, Token: d.Token})
		}
		if n == 100 {
			for _, id := range m.model.ids() {
				if j := m.model.jobs[id]; j.state == Ready && j.job.Topic == topic && bucketOf(id, 2) == slices.IndexFunc(results, func(r []Reserved) bool { return &r[0] == &bucket[0] }) {
					t.Fatalf("reserve did not give %q, which is ready", id)
				}
			}
		}
	}
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

// ack draws a verb's subject: a delivery, or an id alone.
func (m *storeMachine) ack(t *rapid.T) Ack {
	if len(m.model.acks) > 0 && rapid.Bool().Draw(t, "by ack") {
		return rapid.SampledFrom(m.model.acks).Draw(t, "ack")
	}
	return Ack{ID: rapid.SampledFrom(modelIDs).Draw(t, "id")}
}

func (m *storeMachine) pushOf(id string) uint64 {
	record := m.redis.Client().HGet(m.ctx, m.store.buckets[m.store.BucketOf(id)].fixed[keyPool], packID(id)).Val()
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
		j.released = j.state != Dead
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
	want := m.refusal(a, j, push)
	same := want == nil && j.state == Dead && a.Token != 0
	if want == nil && !same && (j.state == Dead || a.Token != 0 && j.state != InFlight) {
		want = ErrState
	}
	if !errors.Is(r.Err, want) {
		t.Fatalf("bury %+v: %+v, want %v, model %v", a, r, want, j)
	}
	if want == nil && !same {
		j.certain()
		j.state, j.released = Dead, false
		if r.Died == nil || r.Died.Reason != "buried: no good" || r.Died.ID != a.ID || !bytes.Equal(r.Died.Body, j.job.Body) {
			t.Fatalf("bury %+v: %+v", a, r)
		}
	}
}

// Check holds the store against the model after every step.
func (m *storeMachine) Check(t *rapid.T) {
	snap, err := audit(m.ctx, m.redis.Client(), m.store)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.faults) > 0 {
		t.Fatalf("faults: %q", snap.faults)
	}
	if len(snap.records) != len(m.model.jobs) {
		t.Fatalf("store has %d jobs, model %v", len(snap.records), m.model.ids())
	}
	for id, j := range m.model.jobs {
		states := snap.states[packID(id)]
		if len(states) != 1 || states[0] != j.state {
			t.Fatalf("job %q is %v, model %v", id, states, j)
		}
	}
}

func TestStoreKeepsToItsModel(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := newStoreMachine(t, server, fmt.Sprintf("%s-%d", testenv.Prefix(t), run))
		rt.Repeat(rapid.StateMachineActions(m))
		server.Client().Del(t.Context(), server.Keys(m.store.space.prefix)...)
	})
}
