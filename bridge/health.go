package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	healthEvery = time.Second
	// frozenAfter is how long a ticker's loop may stand still: far longer than its calls may take.
	frozenAfter = 30 * time.Second
	// lateAfter is how long a ticker may be without success before the replica is not ready.
	lateAfter = 5 * time.Second
)

// health knows whether the replica can do its work, and says in the log once for each change when Redis or NATS goes
// or comes.
type health struct {
	queue   *delay.Queue
	link    *Link
	now     func() time.Time
	log     zerolog.Logger
	started atomic.Bool
	redis   atomic.Bool
	// told is the advice that the log has last for Redis; run alone uses it.
	told string
	// answers counts Redis's answers in a row; run alone uses it.
	answers int
	natsUp  atomic.Bool
	// pushes says why no pushes come from the stream that is configured; nil: there is none.
	pushes func() error
}

func (h *health) run(ctx context.Context) {
	every := time.NewTicker(healthEvery)
	defer every.Stop()
	first := true
	for {
		h.look(ctx, first)
		first = false
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-h.link.changed:
		}
	}
}

func (h *health) look(ctx context.Context, first bool) {
	err := h.queue.Ping(ctx)
	if ctx.Err() != nil {
		return
	}
	// After an outage the client's pool may refuse to dial for up to a second more: Redis is back when it answers twice.
	if err != nil {
		h.answers = 0
	} else {
		h.answers++
	}
	if first {
		h.answers *= 2
	}
	up := h.answers > 1
	advice := ""
	if misfit := (*delay.MisfitError)(nil); errors.As(err, &misfit) {
		advice = misfit.Advice.Error()
	}
	news := advice != "" && advice != h.told
	h.told = advice
	if was := h.redis.Swap(up); first || was != up || news {
		h.say("redis", err)
	}
	connected := h.link.IsConnected()
	if was := h.natsUp.Swap(connected); first || was != connected {
		var err error
		if !connected {
			err = errAway
			if last := h.link.LastError(); last != nil {
				err = fmt.Errorf("%w: %w", errAway, advised(last))
			}
		}
		h.say("nats", err)
	}
}

func (h *health) say(system string, err error) {
	if err != nil {
		h.log.Warn().Err(err).Str("system", system).Msg("connection is away, it is tried again")
		return
	}
	h.log.Info().Str("system", system).Msg("connection is there")
}

// ready gives an error that says why the replica cannot take work now, or nil.
func (h *health) ready() error {
	var errs []error
	if !h.redis.Load() {
		errs = append(errs, errors.New("redis does not answer"))
	}
	if !h.link.IsConnected() {
		errs = append(errs, errors.New("nats is not connected"))
	}
	if !h.started.Load() {
		errs = append(errs, errors.New("not serving"))
	}
	if h.pushes != nil {
		errs = append(errs, h.pushes())
	}
	return errors.Join(append(errs, h.tickers(lateAfter, func(p delay.Pulse) time.Time { return p.Run }))...)
}

// alive gives an error where only a restart can help.
func (h *health) alive() error {
	if h.link.IsClosed() {
		return errors.New("nats connection is closed for good")
	}
	return h.tickers(frozenAfter, func(p delay.Pulse) time.Time { return p.Turn })
}

// tickers gives an error for each ticker whose sign of life is older than limit. One that never had one has not begun.
func (h *health) tickers(limit time.Duration, sign func(delay.Pulse) time.Time) error {
	var errs []error
	for b, p := range h.queue.Pulses() {
		if at := sign(p); !at.IsZero() && h.now().Sub(at) > limit {
			errs = append(errs, fmt.Errorf("ticker of bucket %d stands still since %s", b, h.now().Sub(at).Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}
