package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// pushStream is the stream of rigs whose pushes come through one.
const pushStream = "PUSHES"

// newStreamRig is newRig with pushes through a stream, on a NATS of its own.
func newStreamRig(t *testing.T, options ...func(*setup)) *rig {
	t.Helper()
	return newRig(t, append([]func(*setup){func(s *setup) {
		s.PushStream = pushStream
		s.natsOptions = append(s.natsOptions, testenv.JetStream())
	}}, options...)...)
}

func (r *rig) js(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// pushTo publishes to the stream, waits for its confirmation, and gives the place in it.
func (r *rig) pushTo(t *testing.T, msg *nats.Msg) uint64 {
	t.Helper()
	ack, err := r.js(t).PublishMsg(t.Context(), msg)
	if err != nil {
		t.Fatalf("publish %.200s: %v", msg.Data, err)
	}
	return ack.Sequence
}

// consumer reads the state of the bridges' consumer.
func (r *rig) consumer(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	consumer, err := r.js(t).Consumer(t.Context(), pushStream, "dqbridge")
	if err != nil {
		t.Fatal(err)
	}
	return consumer.CachedInfo()
}

// drained waits until the stream has the acks of all its messages.
func (r *rig) drained(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, 2*patience, func() bool {
		info := r.consumer(t)
		return info.NumPending == 0 && info.NumAckPending == 0
	}, "all pushes are acked")
	stream, err := r.js(t).Stream(t.Context(), pushStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("the stream still holds %d messages", n)
	}
}

// publishMany publishes jobs with the ids job-0 … to the stream.
func (r *rig) publishMany(t *testing.T, n int, job func(i int) string) {
	t.Helper()
	js := r.js(t)
	acks := make([]jetstream.PubAckFuture, n)
	for i := range n {
		var err error
		if acks[i], err = js.PublishAsync(r.subject("push"), []byte(job(i))); err != nil {
			t.Fatal(err)
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for i, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			t.Fatalf("publish %d: %v", i, err)
		case <-timer.C:
			t.Fatalf("publish %d is not confirmed", i)
		}
	}
}

// numbered gives jobs with ids of their own.
func numbered(i int) string { return fmt.Sprintf(`{"id":"job-%d","topic":"t"}`, i) }

// arrives waits until a job is stored.
func (r *rig) arrives(t *testing.T, id string) {
	t.Helper()
	testenv.Eventually(t, patience, func() bool { return r.admin(t, "get", fmt.Sprintf(`{"id":%q}`, id)).Code == 200 }, id+" is stored")
}
