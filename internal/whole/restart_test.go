package whole_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Replicas are replaced one after the other while jobs are pushed and worked on: nobody notices.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	r.patience = 10 * time.Second // so long without an answer is a lost one
	replicas := []*testenv.Process{r.serving(), r.serving(), r.serving()}
	r.workers(4, func(d delivery) {
		r.working.Go(func() { // the work takes its time, and its ack may meet another replica than the delivery's
			if r.pause(rand.N(300 * time.Millisecond)) {
				r.ack(d)
			}
		})
	})
	job := mixed(time.Second, "60s")
	stop := r.flow(200, func(i int) { r.insist(job(i)) })

	var slowest time.Duration
	leave := func(p *testenv.Process) {
		began := time.Now()
		p.Term()
		if code := p.Wait(10 * time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		slowest = max(slowest, time.Since(began))
	}
	for i, old := range replicas { // the new one comes first, as a deployment does it
		replicas[i] = r.serving()
		leave(old)
	}
	for i, old := range replicas { // the old one goes first, as a stateful set does it
		leave(old)
		replicas[i] = r.serving()
	}
	stop()
	r.landed()
	t.Logf("the slowest replica left within %v", slowest.Round(time.Millisecond))
	report := r.settled(15 * time.Second)
	if n := r.unanswered.Load(); n > 0 {
		t.Errorf("%d pushes were not answered", n)
	}
	if report.Unconfirmed > 0 || report.Repeated > 0 || report.Redelivered > 0 || report.Delivered != report.Pushed {
		t.Errorf("not each job once: %s", report.String())
	}
	r.end(replicas...)
}

// A replica that is alone has nobody who takes the acks of its deliveries: it waits for them.
func TestLastReplicaWaitsForAcks(t *testing.T) {
	t.Parallel()
	const jobs, answeredAfter = 20, 1500 * time.Millisecond
	r := newRig(t, "everysec")
	p := r.serving("DQ_SHUTDOWN_TIMEOUT=20s")
	out := make(chan delivery, 2*jobs)
	r.workers(1, r.into(out))
	for i := range jobs {
		r.insist(mixed(0, "60s")(i))
	}
	later := mixed(0, "60s")(jobs)
	later.Delay = "1s" // due while the replica leaves: it must not deliver it any more
	r.insist(later)
	testenv.Eventually(t, 10*time.Second, func() bool { return len(out) == jobs }, "all deliveries")

	p.Term()
	began := time.Now()
	r.pause(answeredAfter)
	if !p.Running() {
		t.Fatal("it did not wait for the acks")
	}
	for range jobs {
		r.ack(r.next(out))
	}
	if code := p.Wait(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("ended %v after SIGTERM, the acks came after %v", time.Since(began).Round(time.Millisecond), answeredAfter)
	if len(out) > 0 {
		t.Errorf("%s was delivered after SIGTERM", r.next(out).ID)
	}
	next := r.serving() // finds nothing but the job that became due meanwhile
	r.ack(r.next(out))
	report := r.settled(5 * time.Second)
	if report.Delivered != jobs+1 {
		t.Errorf("%d deliveries of %d jobs", report.Delivered, jobs+1)
	}
	r.end(next)
}

func TestLastReplicaWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	const may = 2 * time.Second
	r := newRig(t, "everysec")
	p := r.serving(fmt.Sprintf("DQ_SHUTDOWN_TIMEOUT=%v", may))
	out := make(chan delivery, 1)
	r.workers(1, r.into(out))
	r.insist(mixed(0, "5s")(0))
	r.next(out)
	r.pause(300 * time.Millisecond) // until the delivery is certain
	began := time.Now()
	p.Term()
	code := p.Wait(may + 2*time.Second)
	took := time.Since(began)
	if code != 0 || took < may {
		t.Errorf("exit code %d after %v, should wait %v", code, took, may)
	}
	t.Logf("ended after %v", took.Round(time.Millisecond))
	// What it left behind comes again after its TTR.
	next := r.serving()
	d := r.next(out)
	if d.Attempt != 2 {
		t.Errorf("attempt %d", d.Attempt)
	}
	r.ack(d)
	r.settled(5 * time.Second)
	r.end(next)
}

// Servers that are away do not keep a replica either: the calls that wait for them end, and are not repeated for long.
func TestReplicaEndsWithoutServers(t *testing.T) {
	t.Parallel()
	const may, calls = 2 * time.Second, 5 * time.Second
	for name, away := range map[string]func(r *rig){
		"Redis is killed": func(r *rig) { r.redis.Kill() },
		"Redis is frozen": func(r *rig) { r.redis.Stop() },
		"NATS is gone":    func(r *rig) { r.nats.Shutdown() },
		"both are":        func(r *rig) { r.redis.Kill(); r.nats.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "everysec")
			r.mayReject.Store(true) // Redis cannot take the ack
			p := r.serving(fmt.Sprintf("DQ_SHUTDOWN_TIMEOUT=%v", may))
			out := make(chan delivery, 1)
			r.workers(1, r.into(out))
			r.insist(mixed(0, "60s")(0))
			d := r.next(out)
			away(r)
			r.history.Finishing(d.ID)
			_ = d.msg.Respond([]byte("+ACK")) // fails where NATS is gone
			r.pause(200 * time.Millisecond)
			began := time.Now()
			p.Term()
			if code := p.Wait(may + calls); code != 0 {
				t.Errorf("exit code %d", code)
			}
			t.Logf("ended after %v, with a timeout of %v", time.Since(began).Round(time.Millisecond), may)
		})
	}
}

// A second signal ends it, whatever is out.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	r := newRig(t, "everysec")
	p := r.serving()
	out := make(chan delivery, 1)
	r.workers(1, r.into(out))
	r.insist(mixed(0, "60s")(0))
	d := r.next(out)
	r.history.Finishing(d.ID)
	p.Term()
	p.WaitFor("bridge leaves", 5*time.Second)
	r.pause(1500 * time.Millisecond) // a second signal within a second is taken for the first, sent twice
	if !p.Running() {
		t.Fatal("it did not wait for the acks")
	}
	p.Term()
	if code := p.Wait(3 * time.Second); code != -1 {
		t.Errorf("exit code %d, should be the signal", code)
	}
}
