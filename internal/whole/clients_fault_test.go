package whole_test

import (
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
	"github.com/dqbridge/dqbridge/internal/whole"
)

// The clients of these tests must see what a bridge does wrong, or the tests would prove nothing.
func TestClientsSeeBrokenPromises(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults testenv.Faults
		kind   whole.Kind
	}{
		"none":          {testenv.Faults{}, ""},
		"early":         {testenv.Faults{Early: 50 * time.Millisecond}, whole.Early},
		"not again":     {testenv.Faults{NoRedelivery: true}, whole.Vanished},
		"still there":   {testenv.Faults{NoFinish: true}, whole.AfterFinish},
		"never stored":  {testenv.Faults{Answer: `{"code":200,"data":{"id":"x","due_at":"2030-01-01T00:00:00Z"}}`}, whole.Lost},
		"twice at once": {testenv.Faults{Twice: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix := testenv.NATS(t), testenv.Prefix(t)
			testenv.NewFakeBridge(t, server.Connect(), prefix, test.faults)
			c := newClients(t, server, prefix)
			c.workers(1, func(d delivery) { // two of them could see one fault as another: what came twice, in the other order
				if d.Attempt > 1 || !share(d.ID, 3) {
					c.ackSync(d)
				}
			})
			stop := c.flow(200, c.once(func(i int) client.Job {
				job := mixed(0, "400ms")(i)
				job.Delay = "100ms"
				return job
			}))
			c.pause(300 * time.Millisecond)
			stop()
			c.landed()
			c.pause(time.Second)
			report := c.history.Check(250 * time.Millisecond)
			t.Log(report.String())
			if report.Pushed == 0 || test.kind == "" && len(report.Faults) > 0 || test.faults.Twice && report.Redelivered < report.Pushed {
				t.Errorf("%s: %v", report.String(), report.Err())
			}
			found := make(map[whole.Kind]int)
			for _, f := range report.Faults {
				found[f.Kind]++
			}
			if test.kind != "" && (found[test.kind] == 0 || len(found) > 1) {
				t.Errorf("faults %v, want only %q", found, test.kind)
			}
		})
	}
}
