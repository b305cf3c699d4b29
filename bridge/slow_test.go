package bridge

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestSlowConsumers: what the client drops is counted, also when the subscription is gone.
func TestSlowConsumers(t *testing.T) {
	t.Parallel()
	const room, sent, within = 10, 1000, 15 * time.Second
	server := testenv.NATS(t)
	link, err := Connect(LinkOptions{URL: server.URL(), Log: zerolog.Nop(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	goOn := make(chan struct{})
	sub, err := link.Subscribe("s", func(*nats.Msg) { <-goOn })
	if err == nil {
		err = sub.SetPendingLimits(room, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, within, func() bool { return link.FlushTimeout(within) == nil }, "the server has the subscription")
	if n := link.slow.dropped(); n != 0 {
		t.Errorf("%d messages are dropped before any came", n)
	}
	client := server.Connect()
	for range sent {
		if err := client.Publish("s", nil); err != nil {
			t.Fatal(err)
		}
	}
	// One is in the hands of the handler, unless that has not begun yet.
	testenv.Eventually(t, within, func() bool { return link.slow.dropped() >= sent-room-1 }, "what did not fit is counted")
	before := link.slow.dropped()
	close(goOn)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if n := link.slow.dropped(); n != before {
		t.Errorf("%d are counted after the end of the subscription, %d before", n, before)
	}
}
