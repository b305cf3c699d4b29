package whole_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

const pushStream = "PUSHES"

// newStreamRig starts servers of which NATS has JetStream; its replicas take pushes from a stream.
func newStreamRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, testenv.NATS(t, testenv.JetStream()), "everysec")
}

// streamed starts a bridge that takes pushes from the stream, and does not wait for it.
func (r *rig) streamed(more ...string) *testenv.Process {
	r.t.Helper()
	return r.replica(append(more, "DQ_PUSH_STREAM="+pushStream)...)
}

// consumer reads the state of the bridges' consumer.
func (r *rig) consumer() *jetstream.ConsumerInfo {
	r.t.Helper()
	js, err := jetstream.New(r.nc)
	if err != nil {
		r.t.Fatal(err)
	}
	consumer, err := js.Consumer(r.ctx, pushStream, "dqbridge")
	if err != nil {
		r.t.Fatal(err)
	}
	return consumer.CachedInfo()
}

// stored gives the ids that Redis holds.
func (r *rig) stored() map[string]bool {
	r.t.Helper()
	found := map[string]bool{}
	for b := range 8 {
		ids, err := r.redis.Client().HKeys(r.ctx, fmt.Sprintf("%s:{%d}:pool", r.prefix, b)).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, id := range ids {
			found[id] = true
		}
	}
	return found
}

// TestStreamIsAckedBehindRedis is C08: Redis comes and goes, replicas are killed, and the stream has the ack of no push
// that Redis does not hold.
func TestStreamIsAckedBehindRedis(t *testing.T) {
	t.Parallel()
	const jobs, kills, flip = 1000, 5, 300 * time.Millisecond
	r := newStreamRig(t)
	way := testenv.NewProxy(t, r.redis.Addr())
	toRedis := "DQ_REDIS_URL=redis://" + way.Addr()
	p := r.streamed(toRedis)
	p.WaitFor("bridge serves", startWithin)
	r.workers(1, r.ackSync)
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(15 * time.Second)
	ids := map[uint64]string{}
	publish := func(i int) {
		id := fmt.Sprintf("job-%06d", i)
		r.history.Pushing(id, due)
		ack, err := js.Publish(r.ctx, r.prefix+".push", fmt.Appendf(nil, `{"id":%q,"topic":"t","at":%d}`, id, due.Unix()+1))
		if err != nil {
			t.Fatalf("publish: %v", err)
		}
		r.history.Pushed(id, time.Time{})
		ids[ack.Sequence] = id
	}
	next := 0
	for turn := 0; next < jobs || turn < 4*kills; turn++ {
		if turn%2 == 0 {
			way.Cut()
		} else {
			way.Heal()
		}
		if turn%4 == 3 && turn < 4*kills {
			p.Kill()
			p = r.streamed(toRedis)
		}
		for over := time.Now().Add(flip); time.Now().Before(over); {
			for range 10 {
				if next < jobs {
					publish(next)
					next++
				}
			}
			r.heldBehind(ids)
			r.pause(20 * time.Millisecond)
		}
	}
	way.Heal()
	testenv.Eventually(t, 30*time.Second, func() bool {
		r.heldBehind(ids)
		info := r.consumer()
		return info.NumPending == 0 && info.NumAckPending == 0
	}, "the stream has all acks")
	testenv.Eventually(t, 60*time.Second, func() bool {
		_, delivered := r.history.Count()
		return delivered == jobs
	}, "all jobs are delivered")
	r.settled(30 * time.Second)
	r.end(p)
}

// heldBehind checks that Redis holds all pushes up to the ack floor. Jobs that were delivered may be gone.
func (r *rig) heldBehind(ids map[uint64]string) {
	r.t.Helper()
	floor := r.consumer().AckFloor.Stream
	stored := r.stored()
	for seq, id := range maps.All(ids) {
		if seq <= floor && !stored[id] && !r.history.IsDelivered(id) {
			r.t.Fatalf("the stream has the ack of message %d, and Redis does not hold %s", seq, id)
		}
	}
}

// TestStreamAfterAKill: what a dead replica had in its hands is taken up by another one within 10 s.
func TestStreamAfterAKill(t *testing.T) {
	t.Parallel()
	const jobs, within = 500, 10 * time.Second
	r := newStreamRig(t)
	way := testenv.NewProxy(t, r.redis.Addr())
	dead := r.streamed("DQ_REDIS_URL=redis://" + way.Addr())
	dead.WaitFor("bridge serves", startWithin)
	way.Cut()
	for i := range jobs {
		r.insist(client.Job{ID: fmt.Sprintf("job-%06d", i), Topic: "t"})
	}
	testenv.Eventually(t, 10*time.Second, func() bool { return r.consumer().NumAckPending == jobs }, "the replica has all pushes")
	p := r.streamed()
	p.WaitFor("bridge serves", startWithin)
	r.pause(6 * time.Second) // longer than the stream leaves a message to a replica that gives no sign of life
	if info := r.consumer(); info.NumAckPending != jobs || info.NumRedelivered != 0 {
		t.Errorf("%d pushes in its hands, %d sent again", info.NumAckPending, info.NumRedelivered)
	}
	dead.Kill()
	died := time.Now()
	testenv.Eventually(t, 2*within, func() bool { return len(r.stored()) == jobs }, "Redis holds all jobs")
	took := time.Since(died)
	t.Logf("taken up %v after the death", took.Round(time.Millisecond))
	if took > within {
		t.Error("that is too late")
	}
	r.workers(1, r.ackSync)
	r.settled(40 * time.Second)
	r.end(p)
}

// TestStreamWhileReplicasAreKilled: pushes through a stream, three replicas of which one dies twice a second.
func TestStreamWhileReplicasAreKilled(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t)
	first := r.streamed()
	first.WaitFor("bridge serves", startWithin)
	replicas := []*testenv.Process{first, r.streamed(), r.streamed()}
	r.workers(3, r.ackSync)
	stop := r.flow(300, r.once(mixed(time.Second, "2s")))
	for i := range 16 {
		r.pause(500 * time.Millisecond)
		replicas[i%3].Kill()
		replicas[i%3] = r.streamed()
	}
	stop()
	r.landed()
	r.settled(45 * time.Second)
	r.end(replicas...)
}
