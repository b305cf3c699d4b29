package delay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// unit is the model's step of time: so long that the real time a run takes does not matter beside it.
const unit = 1000 * time.Second

// modelJob is a job as the model sees it.
type modelJob struct {
	job      Job
	state    State
	first    int  // unit: the due time that counts for its expiry
	due      int  // unit
	moved    bool // its due time is not that of the push any more
	deadline int  // unit, in flight
	push     uint64
	token    uint64 // of the last delivery
	leased   bool
	released bool // the last delivery ended by a release
	buried   bool // the job died by a bury
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

// late reports whether a job is too late for its first delivery: expiries are half a unit more than whole ones.
func (j *modelJob) late(now int) bool {
	return j.n == 0 && j.job.Expires > 0 && now-j.first > int(j.job.Expires/unit)
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
		case j.state == Delayed && j.due <= m.now && j.late(m.now):
			j.state = Dead
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
	ctx    context.Context
	store  *Store
	model  *model
	client *redis.Client
}

func newStoreMachine(t *testing.T, client *redis.Client, prefix string) *storeMachine {
	m := &storeMachine{ctx: t.Context(), client: client, model: &model{jobs: map[string]*modelJob{}}}
	m.store = NewStore(client, StoreOptions{Prefix: prefix, Buckets: 2, MaxDelay: 100 * unit})
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
		Replace:     rapid.Bool().Draw(t, "replace"),
	}
	if rapid.Bool().Draw(t, "expires") {
		j.Expires = units("expires", 0, 1) + unit/2
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
		m.pushed(t, jobs[i], p)
	}
}

func (m *storeMachine) pushed(t *rapid.T, j Job, p Pushed) {
	old := m.model.jobs[j.ID]
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
	for b := range m.store.Buckets() {
		p, err := m.store.Promote(m.ctx, b, nil)
		if err != nil {
			t.Fatal(err)
		}
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
			if j == nil || j.state != Ready || j.late(m.model.now) {
				t.Fatalf("reserved %q, which the model has as %v", d.ID, j)
			}
			if d.Topic != topic || d.Attempt != j.n+1 || d.Token <= j.token || !bytes.Equal(d.Body, j.job.Body) ||
				!bytes.Equal(d.Headers, j.job.Headers) || d.TTR != j.job.TTR || d.Raw != j.job.Raw || !j.moved && d.Delay != j.job.Delay || d.Expires != j.job.Expires {
				t.Fatalf("reserved %+v, want attempt %d of %v", d.Job.ID, j.n+1, j)
			}
			j.released = false
			j.state, j.leased, j.token, j.push = InFlight, true, d.Token, d.Push
			j.deadline = m.model.now + 1 // a lease is shorter than a unit
			m.model.acks = append(m.model.acks, Ack{ID: d.ID, Push: d.Push, Token: d.Token})
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
	want := m.refusal(a, j, push)
	same := want == nil && j.state == Dead && a.Token != 0 && j.buried
	if want == nil && !same && j.state == Dead {
		want = ErrState
	}
	if !errors.Is(r.Err, want) {
		t.Fatalf("bury %+v: %+v, want %v, model %v", a, r, want, j)
	}
	if want == nil && !same {
		j.certain()
		j.state, j.released, j.buried = Dead, false, true
		if r.Died == nil || r.Died.Reason != "buried: no good" || r.Died.ID != a.ID || !bytes.Equal(r.Died.Body, j.job.Body) {
			t.Fatalf("bury %+v: %+v", a, r)
		}
	}
}

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
		j.state, j.n, j.first, j.released, j.buried = Ready, 0, m.model.now, false, false
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
	for b := range m.store.Buckets() {
		died, _, err := m.store.Expire(m.ctx, b, topic, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range died {
			if j := m.model.jobs[d.ID]; j == nil || j.state != Ready || !j.late(m.model.now) {
				t.Fatalf("job %q expired, model %v", d.ID, j)
			}
			m.model.jobs[d.ID].state = Dead
		}
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

// Check holds the store against the model after every step.
func (m *storeMachine) Check(t *rapid.T) {
	snap, err := audit(m.ctx, m.client, m.store)
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
	checkModel(t, testenv.SharedRedis(t).Client())
}

// The in-memory stand-in of `dqbridge dev` is held to the same model.
func TestStandInKeepsToTheModel(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	checkModel(t, client)
}

func checkModel(t *testing.T, client *redis.Client) {
	t.Helper()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := newStoreMachine(t, client, fmt.Sprintf("%s-%d", testenv.Prefix(t), run))
		rt.Repeat(rapid.StateMachineActions(m))
		keys, err := client.Keys(t.Context(), m.store.space.prefix+":*").Result()
		if err != nil {
			rt.Fatal(err)
		}
		if len(keys) > 0 {
			client.Del(t.Context(), keys...)
		}
	})
}
