package bridge_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLiveTwoReplicas: what is shown at one replica is of both, with percentiles of all deliveries together.
func TestLiveTwoReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.start(t)
	r.replicas(t, 2)
	w := r.work(t, "t")
	// Over HTTP it is known which replica takes what.
	for i := range 30 {
		at := []*replica{r.main, other, other}[i%3]
		at.http(t, "POST", "/push", fmt.Sprintf(`{"id":"job-%d","topic":"t","ttr":60}`, i), asJSON).is(t, 200, "")
	}
	w.await(t, 30)
	for _, b := range []*replica{r.main, other} {
		s := b.live(t, "")
		s.until("both answer", func(e liveEvent) bool { return e.Figures.Replicas == 2 && e.Figures.Answered == 2 })
		h := dataOf[historyData](t, b.http(t, "GET", "/api/history?topic=t", ""))
		if sum(h.In) != 30 || !h.Kept {
			t.Errorf("the last hour has %d pushes: %+v", sum(h.In), h)
		}
		testenv.Eventually(t, patience, func() bool {
			return sum(dataOf[historyData](t, b.http(t, "GET", "/api/history?topic=t", "")).Out) == 30
		}, "all deliveries are told")
	}
	for i := range 30 {
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	r.emptied(t)
}

// TestLiveReplicaSilent: one that does not answer is left out, and costs the event little.
func TestLiveReplicaSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.start(t)
	r.replicas(t, 2)
	r.main.live(t, "").until("both answer", func(e liveEvent) bool { return e.Figures.Answered == 2 })
	if err := other.stop(t); err != nil {
		t.Error(err)
	}
	s := r.main.live(t, "")
	e := s.until("one is left", func(e liveEvent) bool { return e.Figures.Replicas == 1 && e.Figures.Answered == 1 })
	if e.Error != "" {
		t.Errorf("error %q", e.Error)
	}
}

// beat lets a replica that is none live in the store, until the test ends. It gives where it is asked.
func (r *rig) beat(t *testing.T) string {
	t.Helper()
	client, err := delay.Dial(delay.RedisOptions{URL: r.redisURL, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	store := delay.NewStore(client, delay.StoreOptions{Prefix: r.Prefix, Buckets: r.buckets, MaxDelay: r.MaxDelay})
	presence := delay.Presence{Process: "pretends", About: "host v0.0.1 2030-01-31T08:00:00.000Z"}
	slot, _, err := store.Beat(t.Context(), presence)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		every := time.NewTicker(delay.BeatEvery / 4)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				_, _, _ = store.Beat(ctx, presence) // one that fails is followed by another
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		beating.Wait()
		presence.Leaving = true
		_, _, _ = store.Beat(context.WithoutCancel(ctx), presence) // so that the bridge need not wait for it
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("%s.ack.%d.pretends.figures", r.Prefix, slot)
}

// TestLivePeers: a replica that lives and does not answer, or not as it should, is left out, and costs an event no more than
// its time.
func TestLivePeers(t *testing.T) {
	t.Parallel()
	long := "[" + strings.TrimSuffix(strings.Repeat("1,", 59), ",") + "]"
	for name, answer := range map[string]func(msg *nats.Msg){
		"nobody there":    nil,
		"silent":          func(*nats.Msg) {},
		"earlier version": func(msg *nats.Msg) { _ = msg.Respond([]byte(`{"code":400,"message":"subject","data":null}`)) },
		"later version":   func(msg *nats.Msg) { _ = msg.Respond([]byte(`{"version":2,"topics":[{"known":true,"in":1e9}]}`)) },
		"no JSON":         func(msg *nats.Msg) { _ = msg.Respond([]byte(`figures`)) },
		"of no topic":     func(msg *nats.Msg) { _ = msg.Respond([]byte(`{"version":1,"all":{"in":1e9},"topics":[]}`)) },
		"of an odd hour": func(msg *nats.Msg) {
			_ = msg.Respond([]byte(`{"version":1,"topics":[],"hour":{"kept":true,"in":` + long + `,"out":[],"finished":[],"late":[]}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			subject := r.beat(t)
			if answer != nil {
				if _, err := r.nc.Subscribe(subject, answer); err != nil {
					t.Fatal(err)
				}
			}
			r.push(t, `{"id":"a","topic":"t","delay":600}`)
			s := r.main.live(t, "")
			e := s.until("two are alive", func(e liveEvent) bool { return e.Figures.Replicas == 2 })
			if e.Figures.Answered != 1 || e.Error != "" || *e.Figures.In > 1e6 || len(e.Topics) != 1 {
				t.Errorf("event %s", s.raw)
			}
			if apart := s.next().At.Sub(e.At); apart > patience/2 {
				t.Errorf("events are %v apart", apart)
			}
			if h := r.main.history(t, "t"); sum(h.In) != 1 {
				t.Errorf("the last hour is %v", h.In)
			}
			r.finish(t, "a")
		})
	}
}

// TestLivePeerAsked: a replica answers others alone, and stays well whatever it is asked.
func TestLivePeerAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.main.live(t, "").next().Replica
	subject := r.subject("ack." + id + ".figures")
	answer, err := r.nc.Request(subject, []byte(`{"topics":["t","u"]}`), patience)
	if err != nil || !strings.Contains(string(answer.Data), `"version":1`) {
		t.Fatalf("the figures are %s, %v", answer.Data, err)
	}
	for _, odd := range []string{``, `[]`, `{"topics":7}`, `{"topics":[` + strings.TrimSuffix(strings.Repeat(`"t",`, 201), ",") + `]}`} {
		if answer, err = r.nc.Request(subject, []byte(odd), 200*time.Millisecond); err == nil {
			t.Errorf("%.30q is answered with %.100s", odd, answer.Data)
		}
	}
	if err = r.nc.Publish(subject, []byte(`{"topics":[]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err = r.nc.Request(subject, []byte(`{"hour":""}`), patience); err != nil {
		t.Error(err)
	}
	r.emptied(t)
}
