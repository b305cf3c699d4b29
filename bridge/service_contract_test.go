package bridge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/bridge"
	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestService: the bridge is a NATS micro service with the store's id in its metadata.
func TestService(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"topic":"t","delay":99}`)
	r.ask(t, r.msg("push", `nonsense`))
	ask := func(subject string, into any) {
		t.Helper()
		answer, err := r.nc.Request(subject, nil, patience)
		if err == nil {
			err = json.Unmarshal(answer.Data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	var ping micro.Ping
	var info micro.Info
	var stats micro.Stats
	for _, suffix := range []string{"", ".dqbridge"} {
		ask("$SRV.PING"+suffix, &ping)
		ask("$SRV.INFO"+suffix, &info)
		ask("$SRV.STATS"+suffix, &stats)
	}
	ask("$SRV.PING.dqbridge."+ping.ID, &ping)
	if ping.Name != "dqbridge" || info.Name != "dqbridge" || stats.Name != "dqbridge" || info.Version != "1.2.3" {
		t.Errorf("named %q, %q, %q, version %q", ping.Name, info.Name, stats.Name, info.Version)
	}
	store, err := r.redis.Client().HGet(t.Context(), r.Prefix+":meta", "store").Result()
	if err != nil || store == "" || info.Metadata["store"] != store {
		t.Errorf("metadata %v, the store in Redis is %q (%v)", info.Metadata, store, err)
	}
	requests := map[string]int{}
	for _, e := range stats.Endpoints {
		requests[e.Subject] = e.NumRequests
		if e.QueueGroup == "" {
			t.Errorf("endpoint %s has no queue group", e.Subject)
		}
	}
	if requests[r.subject("push")] != 2 {
		t.Errorf("requests %v", requests)
	}
	if _, found := requests[r.subject("finish")]; !found {
		t.Errorf("no endpoint for finish: %v", requests)
	}
}

// TestOtherStore: a bridge refuses to start beside one that has another store under its prefix.
func TestOtherStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := testenv.Redis(t)
	second := r.run(t, func(s *setup) { s.redisURL = other.URL() })
	err := second.wait(t)
	if !errors.Is(err, bridge.ErrOtherStore) {
		t.Fatalf("ended with %v", err)
	}
	key := r.Prefix + ":meta"
	for _, client := range []*testenv.RedisServer{r.redis, other} {
		store, getErr := client.Client().HGet(t.Context(), key, "store").Result()
		if getErr != nil || !strings.Contains(err.Error(), store) {
			t.Errorf("%v names not the store %s (%v)", err, store, getErr)
		}
	}
	// Another prefix is another installation, and the same store another replica.
	r.start(t, func(s *setup) { s.redisURL, s.Prefix = other.URL(), s.Prefix+"-other" })
	r.start(t)
	r.push(t, `{"topic":"t","delay":99}`)
}

// TestOtherLayout: the number of buckets is fixed at the first use.
func TestOtherLayout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, buckets := range []int{1, 7, 9, 64} {
		err := r.run(t, func(s *setup) { s.buckets = buckets }).wait(t)
		if !errors.Is(err, delay.ErrLayout) || !strings.Contains(err.Error(), "8") || !strings.Contains(err.Error(), r.Prefix) {
			t.Errorf("%d buckets: ended with %v", buckets, err)
		}
	}
	r.push(t, `{"topic":"t","delay":99}`)
}

// TestStreams: a stream that would answer requests is an error at start, any other is none.
func TestStreams(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t, testenv.JetStream())
	for name, row := range map[string]struct {
		subjects []string // with dq for the prefix
		refused  bool
	}{
		"all":            {[]string{"dq.>"}, true},
		"push":           {[]string{"dq.push"}, true},
		"push and below": {[]string{"dq.push", "dq.push.>"}, true},
		"push of topics": {[]string{"dq.push.*"}, true},
		"one topic":      {[]string{"dq.push.mail"}, true},
		"two tokens":     {[]string{"dq.push.*.eu"}, true},
		"finish":         {[]string{"dq.finish"}, true},
		"acks":           {[]string{"dq.ack.>"}, true},
		"wildcard":       {[]string{"dq.*"}, true},
		"ready":          {[]string{"dq.ready.>"}, false},
		"one ready":      {[]string{"dq.ready.mail"}, false},
		"events":         {[]string{"dq.event.>"}, false},
		"none":           {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(s *setup) { s.nats, s.idle = server, true })
			if row.subjects != nil {
				stream := "S" + strings.ReplaceAll(r.Prefix, ".", "_")
				makeStream(t, r.nc, stream, r.Prefix, row.subjects)
				defer deleteStream(t, r.nc, stream)
			}
			if !row.refused {
				r.start(t)
				return
			}
			b := r.run(t)
			testenv.Eventually(t, patience, func() bool { return b.over() || b.log.has("bridge serves") }, "the bridge serves or refuses")
			if !b.over() {
				t.Fatalf("a bridge serves beside a stream over %q", row.subjects)
			}
			if !errors.Is(b.err, bridge.ErrStream) || !strings.Contains(b.err.Error(), "S"+r.Prefix) {
				t.Errorf("ended with %v", b.err)
			}
		})
	}
}

func makeStream(t *testing.T, nc *nats.Conn, name, prefix string, subjects []string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: name, Storage: jetstream.MemoryStorage}
	for _, subject := range subjects {
		config.Subjects = append(config.Subjects, prefix+strings.TrimPrefix(subject, "dq"))
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func deleteStream(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Error(err)
	}
}
