package whole_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestReplicasAreKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	replicas := []*testenv.Process{r.serving(), r.serving(), r.serving()}
	r.workers(4, func(d delivery) {
		if d.Attempt == 1 && share(d.ID, 5) {
			return // the worker crashes, as it were
		}
		r.ackSync(d)
	})
	const during, every = 10 * time.Second, 500 * time.Millisecond
	stop := r.flow(300, r.once(mixed(2*time.Second, "2s")))
	kills := 0
	for over := time.Now().Add(during); time.Now().Before(over); kills++ {
		r.pause(every)
		i := rand.N(len(replicas))
		replicas[i].Kill()
		replicas[i] = r.replica()
	}
	stop()
	r.landed()
	t.Logf("%d kills", kills)
	report := r.settled(30 * time.Second)
	if report.Pushed < int(during.Seconds())*50 {
		t.Errorf("only %d pushes were confirmed", report.Pushed)
	}
	r.end(replicas...)
}

// An ack subject stays good when its replica is dead: from 5 s after its death any other one takes it.
func TestAcksToADeadReplica(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(r *rig, kill func()){
		"taken by one that is there": func(r *rig, kill func()) {
			r.serving()
			kill()
		},
		"taken by one started at once": func(r *rig, kill func()) {
			kill()
			r.replica()
		},
		"taken by the next owner of its slot": func(r *rig, kill func()) {
			kill()
			r.pause(2500 * time.Millisecond)
			r.replica()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs, within = 20, 5 * time.Second
			r := newRig(t, "everysec")
			dead := r.serving()
			out := make(chan delivery, jobs)
			r.workers(1, r.into(out))
			for i := range jobs {
				if !r.pushOnce(mixed(0, "60s")(i)) {
					t.Fatal("a push is not confirmed")
				}
			}
			var deliveries []delivery
			for range jobs {
				deliveries = append(deliveries, r.next(out))
			}
			// The deliveries are certain and stay out: the leases became TTRs.
			r.pause(300 * time.Millisecond)
			var died time.Time
			replace(r, func() {
				dead.Kill()
				died = time.Now()
			})
			last := deliveries[jobs-1]
			testenv.Eventually(t, 2*within, func() bool {
				r.history.Finishing(last.ID)
				return r.ackOnce(last) == nil
			}, "an ack that is taken")
			took := time.Since(died)
			t.Logf("taken %v after the death", took.Round(time.Millisecond))
			r.history.Finished(last.ID)
			if took > within {
				t.Errorf("taken only %v after the death", took)
			}
			for _, d := range deliveries[:jobs-1] { // from now on no ack may be lost
				r.ack(d)
			}
			report := r.settled(10 * time.Second)
			if report.Delivered != jobs {
				t.Errorf("%d deliveries of %d jobs", report.Delivered, jobs)
			}
		})
	}
}
