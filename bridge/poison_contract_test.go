package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLongReplySubjects: a reply subject beside which the ack subject finds no room in a line of the protocol costs nobody
// the connection. NATS takes lines of 4,096 bytes; for a longer one it closes the connection, and its clients then give up
// for good.
func TestLongReplySubjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "other")
	r.push(t, fmt.Sprintf(`{"id":"job-%s","topic":"t"}`, strings.Repeat("x", 250)))
	for i, length := range []int{100, 1000, 3500, 3800, 3900, 4000, 4020} {
		answers := &worker{rig: r}
		answers.subscribe(t, r.nc, "_INBOX.*", "")
		requests := [][2]string{{"pop.t", ""}, {"push", "{"}, {"push.t", `{"id":"later","delay":60}`}, {"finish", "nobody"}}
		for _, request := range requests {
			msg := r.msg(request[0], request[1])
			msg.Reply = "_INBOX." + strings.Repeat("x", length)
			r.send(t, msg)
		}
		for _, d := range answers.await(t, len(requests)) {
			if d.Reply != "" { // the job
				d.w.rig.ask(t, &nats.Msg{Subject: d.Reply, Data: []byte("-NAK")})
			}
		}
		answers.leave(t)
		r.push(t, fmt.Sprintf(`{"id":"other-%d","topic":"other"}`, i))
		w.next(t).is(t, fmt.Sprintf("other-%d", i), 1).finish(t)
	}
	r.stayed(t)
	refused(t, r.poppedTo(t, strings.Repeat("x", 2000)), 413, "reply subject")
	r.work(t, "t").next(t).finish(t)
	r.finish(t, "later")
	r.emptied(t)
}

// poppedTo asks for a job with a reply subject of the caller's own.
func (r *rig) poppedTo(t *testing.T, inbox string) reply {
	t.Helper()
	answers := &worker{rig: r}
	answers.subscribe(t, r.nc, "_INBOX."+inbox, "")
	msg := r.msg("pop.t", "")
	msg.Reply = "_INBOX." + inbox
	r.send(t, msg)
	return envelopeOf(t, answers.next(t).Msg)
}

// stayed fails the test where the bridge's connection was lost.
func (r *rig) stayed(t *testing.T) {
	t.Helper()
	if n := r.main.link.Stats().Reconnects; n != 0 || r.main.link.IsClosed() {
		t.Errorf("the connection was made anew %d times, closed: %v", n, r.main.link.IsClosed())
	}
}

// TestPoisonInRedis: a job with a topic that no push could have stored is put aside, and the connection stays.
func TestPoisonInRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.buckets = 1 })
	w, dead := r.work(t, "other"), r.events(t, "dead.>")
	topic := strings.Repeat("x", 5000)
	key := func(tail string) string { return r.Prefix + ":{0}:" + tail }
	now := time.Now().UnixMilli()
	client := r.redis.Client()
	if err := errors.Join(
		client.HSet(t.Context(), key("pool"), "poison", fmt.Sprintf("1 %s 1 %d %d 60000\n\"\"", topic, now, now)).Err(),
		client.HIncrBy(t.Context(), key("topics"), "r:"+topic, 1).Err(),
		client.RPush(t.Context(), key("topic:"+topic), "poison").Err(),
		client.ZAdd(t.Context(), key("active"), redis.Z{Score: float64(now), Member: topic}).Err(),
	); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() bool { return r.main.log.has("job cannot be delivered") }, "it is told of")
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"other-%d","topic":"other"}`, i))
		w.next(t).is(t, fmt.Sprintf("other-%d", i), 1).finish(t)
	}
	r.stayed(t)
	if n := len(r.main.log.lines("job cannot be delivered")); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	if n := dead.count(); n != 0 {
		t.Errorf("%d events of a subject that is none", n)
	}
	if n := r.finish(t, "poison"); n != 1 {
		t.Errorf("finished %d", n)
	}
	r.emptied(t)
}
