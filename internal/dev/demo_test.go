package dev

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// demoCase is one demonstration against a bridge with faults.
type demoCase struct {
	faults   testenv.Faults
	dropAcks bool
	limit    time.Duration
	want     []string // in the error; none: no error

	out bytes.Buffer
	err error
}

func TestDemo(t *testing.T) {
	t.Parallel()
	cases := map[string]*demoCase{
		"kept promises":       {},
		"acks dropped":        {dropAcks: true, limit: time.Second, want: []string{`"at once"`, "finish was not confirmed"}},
		"early":               {faults: testenv.Faults{Early: 20 * time.Millisecond}, want: []string{"before the due time it names", "too early"}},
		"no redelivery":       {faults: testenv.Faults{NoRedelivery: true}, limit: time.Second, want: []string{`"unanswered"`, "delivered 1 times, not 2"}},
		"twice":               {faults: testenv.Faults{Twice: true}, want: []string{"delivered again after"}},
		"finish does nothing": {faults: testenv.Faults{NoFinish: true}, want: []string{"after its finish was confirmed", `"cancelled"`}},
		"push refused": {
			faults: testenv.Faults{Answer: `{"code":503,"message":"full","data":null}`}, want: []string{"push job", "503: full"},
		},
	}
	// All at once, not as parallel subtests: they only wait, and a machine with two cores would run two at a time.
	var running sync.WaitGroup
	for _, test := range cases {
		server, prefix := testenv.NATS(t), testenv.Prefix(t)
		testenv.NewFakeBridge(t, server.Connect(), prefix, test.faults)
		nc := server.Connect()
		running.Go(func() {
			options := DemoOptions{Now: time.Now, dropAcks: test.dropAcks, limit: test.limit}
			test.err = Demo(t.Context(), nc, prefix, &test.out, options)
		})
	}
	running.Wait()
	for name, test := range cases {
		test.check(t, name)
	}
}

func (c *demoCase) check(t *testing.T, name string) {
	t.Helper()
	if len(c.want) == 0 && (c.err != nil || !strings.Contains(c.out.String(), "All as promised: 7 jobs delivered")) {
		t.Errorf("%s: %v, printed:\n%s", name, c.err, c.out.String())
	}
	for _, want := range c.want {
		if c.err == nil || !strings.Contains(c.err.Error(), want) {
			t.Errorf("%s: error %v lacks %q", name, c.err, want)
		}
	}
}

func TestDemoWithoutBridge(t *testing.T) {
	t.Parallel()
	err := Demo(t.Context(), testenv.NATS(t).Connect(), testenv.Prefix(t), &bytes.Buffer{}, DemoOptions{Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "no bridge answers") {
		t.Errorf("error %v", err)
	}
}

func TestDemoFinishesWhatIsLeftOver(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.NATS(t), testenv.Prefix(t)
	bridge := testenv.NewFakeBridge(t, server.Connect(), prefix, testenv.Faults{})
	nc := server.Connect()
	if _, err := nc.Request(prefix+".push", []byte(`{"id":"old","topic":"demo","delay":"100ms"}`), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := Demo(t.Context(), nc, prefix, &bytes.Buffer{}, DemoOptions{Now: time.Now}); err != nil {
		t.Error(err)
	}
	if n := bridge.Jobs(); n != 0 {
		t.Errorf("%d jobs left", n)
	}
}
