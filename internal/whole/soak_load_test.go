package whole_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/dqbridge/dqbridge/internal/client"
)

const (
	soakTTR = 2 * time.Second
	// mostBatches is how many arrays a second are pushed; at higher rates they are longer.
	mostBatches = 250
)

// batch is how many jobs one push has, so that a rate is made.
func batch(rate int) int { return (rate + mostBatches - 1) / mostBatches }

// pushBatch pushes the i-th array of jobs, once: nobody knows what became of those without an answer.
func (s *soak) pushBatch(i int) {
	n := batch(*soakRate)
	random := rand.New(rand.NewPCG(s.seed, uint64(i)))
	var list bytes.Buffer
	now := time.Now()
	for at := range n {
		id, delay := fmt.Sprintf("job-%08d", i*n+at), soakDelay(random)
		s.history.Pushing(id, now.Add(delay))
		fmt.Fprintf(&list, `%c{"id":%q,"topic":"soak.%d","delay":"%dms","ttr":%d,"body":%q}`, separator(at), id, random.IntN(8),
			delay.Milliseconds(), int(soakTTR.Seconds()), soakBody)
	}
	list.WriteByte(']')
	reply, err := s.nc.Request(s.prefix+".push", list.Bytes(), s.patience)
	if err != nil {
		s.unanswered.Add(int64(n))
		return
	}
	s.note(reply.Data)
}

var soakBody = strings.Repeat("x", 100)

// soakDelay is none for some jobs, long for some, and up to 2 s for most.
func soakDelay(random *rand.Rand) time.Duration {
	longest := 2000
	switch random.IntN(10) {
	case 0:
		return 0
	case 1:
		longest = 5000
	}
	return time.Duration(random.IntN(longest)) * time.Millisecond
}

// note writes down which jobs of an array were confirmed.
func (s *soak) note(data []byte) {
	var whole struct {
		Code int `json:"code"`
		Data []struct {
			Code    int           `json:"code"`
			Message string        `json:"message"`
			Data    client.Pushed `json:"data"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &whole); err != nil || len(whole.Data) == 0 {
		s.t.Errorf("an array is answered %.200s (%v)", data, err)
		return
	}
	for _, job := range whole.Data {
		switch {
		case job.Code == http.StatusOK && !job.Data.Duplicate:
			s.history.Pushed(job.Data.ID, job.Data.DueAt)
		case job.Code == http.StatusServiceUnavailable:
			s.refuse(job.Message)
		default:
			s.t.Errorf("a push is answered %d %s %+v", job.Code, job.Message, job.Data)
		}
	}
}

// work is what the workers do: most finish the job, some do something else with its first delivery.
func (s *soak) work(d delivery) {
	kind := crc32.ChecksumIEEE([]byte(d.ID)) % 100
	if d.Attempt > 1 {
		kind = 99
	}
	switch {
	case kind < 3: // the worker crashes, as it were
		s.history.Left(d.ID, d.Attempt)
	case kind < 5:
		s.history.Left(d.ID, d.Attempt)
		s.working.Go(func() { s.say(d, `-NAK {"delay": 300000000}`) })
	case kind < 7:
		s.working.Go(func() { s.workLong(d) })
	case kind < 8 && s.isNew(d.ID):
		s.history.Left(d.ID, d.Attempt)
		s.working.Go(func() { s.buryAndKick(d) })
	default:
		s.ackSync(d)
	}
}

// isNew says whether a job was not buried before; a kick counts its attempts anew.
func (s *soak) isNew(id string) bool {
	_, known := s.buried.LoadOrStore(id, true)
	return !known
}

// workLong works for longer than the TTR, and says so in time.
func (s *soak) workLong(d delivery) {
	for range 3 {
		if !s.pause(soakTTR / 2) {
			return
		}
		s.say(d, "+WPI")
	}
	s.ackSync(d)
}

// say sends a verb until it is answered, for a while. A no is no fault: the delivery may be over.
func (s *soak) say(d delivery, payload string) {
	s.insistOn(func(ctx context.Context) error {
		reply, err := s.nc.RequestWithContext(ctx, d.msg.Reply, []byte(payload))
		if err == nil && len(reply.Data) == 0 {
			err = errors.New("not confirmed")
		}
		return err
	})
}

// buryAndKick makes a job dead and brings it back; what came of the first is known by the second alone.
func (s *soak) buryAndKick(d delivery) {
	s.say(d, "+TERM")
	s.insistOn(func(ctx context.Context) error {
		_, err := s.client.Admin(ctx, "kick", map[string]string{"id": d.ID}, &struct{}{})
		var no *client.Error
		if errors.As(err, &no) && no.Code != http.StatusServiceUnavailable {
			return nil
		}
		return err
	})
}

// insistOn asks until there is an answer, for a while.
func (s *soak) insistOn(ask func(ctx context.Context) error) {
	for giveUp := time.Now().Add(20 * time.Second); time.Now().Before(giveUp); {
		ctx, cancel := context.WithTimeout(s.ctx, s.ackPatience)
		err := ask(ctx)
		cancel()
		if err == nil {
			return
		}
		s.acksUnsure.Add(1)
		if !s.pause(100 * time.Millisecond) {
			return
		}
	}
}
