package dashboard_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// With 10,000 topics a page of them is there at once, and the rest a few keys away.
func (b *browser) testManyTopics(t *testing.T) {
	t.Parallel()
	const topics, array = 10_000, 1000
	r := newRig(t, "")
	for from := 0; from < topics; from += array {
		jobs := make([]map[string]any, array)
		for i := range jobs {
			jobs[i] = map[string]any{"topic": fmt.Sprintf("tenant-%05d.mail", from+i), "delay": "1h"}
		}
		r.ask("push", jobs)
	}
	began := time.Now()
	p := b.open(t, desk, r.addr, "")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 50`)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a page of topics takes %v", took)
	} else {
		t.Logf("a page of topics takes %v", took.Round(time.Millisecond))
	}
	p.sees("10,000")
	p.shot("many-topics")
	p.button("Next")
	p.sees("Page 2")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 50`)
	p.types("#filter", "tenant-07777.*")
	p.holds(`document.querySelectorAll("table.topics tbody tr").length === 1`)
	p.sees("tenant-07777.mail")
	if nodes := value[int](p, `document.querySelectorAll("*").length`); nodes > 5000 {
		t.Errorf("the page has %d elements", nodes)
	}
}

// While Redis is away the page says so and keeps what it knew.
func (b *browser) testStoreLost(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	r := newRigOn(t, "", redis.URL())
	r.push(client.Job{Topic: "kept", ID: "one", Delay: "1h"})
	p := b.open(t, desk, r.addr, "")
	p.sees("kept")
	p.expect("503")
	redis.Stop()
	p.sees("Not all could be read:")
	p.sees("Not ready:")
	p.sees("kept")
	p.shot("store-lost")
	redis.Cont()
	p.lacks("Not all could be read:")
	p.lacks("Not ready:")
	p.sees("kept")
}

// A stream that is lost is said to be, and is there again by itself.
func (b *browser) testStreamLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	proxy := testenv.NewProxy(t, r.addr)
	p := b.open(t, desk, proxy.Addr(), "")
	p.sees("No topics yet")
	p.expect("ERR_")
	proxy.Cut()
	p.sees("The stream is lost")
	p.sees("Next try in")
	p.sees("not live")
	p.shot("stream-lost")
	r.ask("push", json.RawMessage(`{"topic":"meanwhile","delay":"1h"}`))
	proxy.Heal()
	p.sees("meanwhile")
	p.lacks("The stream is lost")

	proxy.Cut()
	p.sees("The stream is lost")
	proxy.Heal()
	p.lacks("The stream is lost")

	proxy.Hold(testenv.ToClient) // a connection that says nothing any more
	p.sees("The stream is lost")
	proxy.Heal()
	p.lacks("The stream is lost")
}
