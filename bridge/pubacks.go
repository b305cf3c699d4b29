package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/dqbridge/dqbridge/delay"
)

// A stream over a ready subject answers each delivery on its reply subject: that it has the message, or why not. Its
// answer may come before the barrier's, or long after it.

// pubAck is a stream's answer to a message.
type pubAck struct {
	Stream string `json:"stream"`
	Error  *struct {
		Code        int    `json:"code"`
		Description string `json:"description"`
	} `json:"error"`
}

// parsePubAck reads a payload that is a stream's answer; nil where it is none. No verb of a worker begins with a brace.
func parsePubAck(data []byte) *pubAck {
	if !bytes.HasPrefix(data, []byte(`{"stream":`)) && !bytes.HasPrefix(data, []byte(`{"error":`)) {
		return nil
	}
	var ack pubAck
	if json.Unmarshal(data, &ack) != nil {
		return nil
	}
	return &ack
}

// told takes in what a stream said of a delivery.
func (d *dispatcher) told(key flightKey, ack *pubAck) {
	if ack.Error != nil {
		d.metrics.trouble("deliver to a stream", fmt.Errorf("stream %s: %s (%d)", ack.Stream, ack.Error.Description, ack.Error.Code))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.flights[key]
	switch {
	case f == nil, f.answered && ack.Error != nil:
	case ack.Error == nil:
		f.taken = true
		d.heard(f.topic)
		d.handOver(f)
	case !f.sorted:
		f.silent, f.refused = true, true
	default:
		d.silence(f.topic)
		delete(d.awaiting, key)
		d.refused = append(d.refused, f)
		d.nudgeVerdicts()
	}
}

// handOver lets a delivery be removed that waited for its stream. The caller holds mu.
func (d *dispatcher) handOver(f *flight) {
	if d.awaiting[f.key] == f {
		delete(d.awaiting, f.key)
		d.handed = append(d.handed, f)
		d.nudgeVerdicts()
	}
}

func (d *dispatcher) nudgeVerdicts() {
	select {
	case d.verdict <- struct{}{}:
	default:
	}
}

// reconsider hands over what waited for the word of a stream, where it turns out that none will come.
func (d *dispatcher) reconsider() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.awaiting {
		if c := d.captures.of(f.topic.name); c == captureNone || c == captureMute {
			d.handOver(f)
		}
	}
}

// capture says what streams make of a delivery that was published: whether somebody listened can be known from their
// word alone, where they give one. none: it is known that there are no streams. The caller holds mu.
func (d *dispatcher) capture(f *flight, none bool) capture {
	if none || f.pop != nil || f.taken || f.answered {
		return captureNone
	}
	return d.captures.of(f.topic.name)
}

// heed carries out what streams said, until ctx is over.
func (d *dispatcher) heed(ctx context.Context) {
	for {
		select {
		case <-d.verdict:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		handed, refused := d.handed, d.refused
		d.handed, d.refused = nil, nil
		d.mu.Unlock()
		if len(handed) > 0 {
			d.count(handed)
			d.confirm(ctx, handed)
		}
		if len(refused) > 0 {
			d.takeBack(ctx, refused)
		}
	}
}

// takeBack undoes deliveries that a stream refused after all. Where Redis does not hear it, their time runs out.
func (d *dispatcher) takeBack(ctx context.Context, flights []*flight) {
	leases := make([]delay.Lease, len(flights))
	for i, f := range flights {
		leases[i] = f.lease
	}
	for began := d.now(); ; holdBack(ctx) {
		_, err := d.queue.Undo(ctx, leases)
		if err == nil {
			break
		}
		d.metrics.trouble("take back", err)
		if d.now().Sub(began) > confirmUntil || ctx.Err() != nil {
			break
		}
	}
	for _, f := range flights {
		d.ready(f.key.bucket, f.topic.name)
	}
	d.endAll(flights)
	for _, f := range flights {
		d.metrics.returned.of(returnedStream).Inc()
		d.trace.returned(f, returnedStream)
	}
	d.expiry.look(d.takeExpiring(flights))
}
