package bench

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// work starts workers that take jobs, note them and finish them, until the function it gives is called.
func (s *session) work() (func(), error) {
	var conns []*nats.Conn
	stop := func() {
		for _, nc := range conns {
			nc.Close()
		}
	}
	for range s.Workers {
		nc, err := s.Connect()
		if err != nil {
			stop()
			return nil, err
		}
		conns = append(conns, nc)
		sub, err := nc.QueueSubscribe(s.Prefix+".ready."+s.Topic+".*", "bench", s.take)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("subscribe jobs: %w", err)
		}
	}
	return stop, nil
}

func (s *session) take(msg *nats.Msg) {
	if s.tally.take(msg) {
		s.Progress.delivered.Add(1)
	}
	_ = msg.Respond([]byte("+ACK")) // one that is lost shows as a job that comes twice
}
