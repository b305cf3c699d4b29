package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const (
	apiStreamNames = "$JS.API.STREAM.NAMES"
	apiStreamInfo  = "$JS.API.STREAM.INFO."
	// apiTimeout is how long JetStream may take to answer.
	apiTimeout = 2 * time.Second
	// captureLook is how often JetStream is asked which ready subjects streams capture, captureHolds how long an answer
	// counts.
	captureLook  = 2 * time.Second
	captureHolds = 5 * time.Second
	// deniedLook is how often one asks who may not know.
	deniedLook = time.Minute
)

// capture is what is known of streams over a subject.
type capture int

const (
	// captureNone: no stream takes it.
	captureNone capture = iota
	// captureConfirms: a stream takes it and says so.
	captureConfirms
	// captureMute: a stream takes it and never says so.
	captureMute
	// captureUnknown: JetStream has not answered.
	captureUnknown
)

// captures knows which ready subjects streams capture. Where there is no JetStream, or this user may not ask it, there
// are none.
type captures struct {
	link     *Link
	subjects subjects
	metrics  *metrics
	log      zerolog.Logger
	now      func() time.Time
	// changed is called after each answer.
	changed func()

	picture atomic.Pointer[picture]
	// told is when the log last named the streams that confirm nothing; look alone uses it.
	told time.Time
}

// picture is one answer of JetStream: the streams over ready subjects.
type picture struct {
	streams []captor
	// reconnects is the link's count before the question, until how long the answer counts.
	reconnects uint64
	until      time.Time
	next       time.Duration
}

// captor is a stream and what it captures.
type captor struct {
	filters [][]string // tokens
	mute    bool
}

// none reports whether it is known that no stream captures a ready subject.
func (c *captures) none() bool {
	p := c.picture.Load()
	return p != nil && len(p.streams) == 0 && c.holds(p)
}

// known reports whether the last answer still counts.
func (c *captures) known() bool {
	p := c.picture.Load()
	return p != nil && c.holds(p)
}

func (c *captures) holds(p *picture) bool {
	return p.reconnects == c.link.Stats().Reconnects && !c.now().After(p.until)
}

// of says what is known of a topic.
func (c *captures) of(topic string) capture {
	p := c.picture.Load()
	if p == nil || !c.holds(p) {
		return captureUnknown
	}
	if len(p.streams) == 0 {
		return captureNone
	}
	tokens := strings.Split(c.subjects.ready(topic), ".")
	for i := range p.streams {
		switch {
		case !p.streams[i].matches(tokens):
		case p.streams[i].mute:
			return captureMute
		default:
			return captureConfirms
		}
	}
	return captureNone
}

func (c *captor) matches(subject []string) bool {
	for _, filter := range c.filters {
		if matchTokens(filter, subject) {
			return true
		}
	}
	return false
}

// matchTokens reports whether a subject is one of those that a filter with wildcards stands for.
func matchTokens(filter, subject []string) bool {
	for i, token := range filter {
		switch {
		case token == ">":
			return len(subject) > i
		case i >= len(subject), token != "*" && token != subject[i]:
			return false
		}
	}
	return len(filter) == len(subject)
}

// run asks JetStream until ctx is over, again and again, and at once after a reconnect.
func (c *captures) run(ctx context.Context) {
	for {
		next := captureLook
		p, err := c.look(ctx)
		switch {
		case err == nil:
			c.picture.Store(p)
			c.changed()
			next = p.next
		case ctx.Err() == nil && c.link.IsConnected() && !c.known():
			c.metrics.trouble("look for streams", err)
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-c.link.reconnected:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look asks which streams there are over ready subjects.
func (c *captures) look(ctx context.Context) (*picture, error) {
	refusals := c.link.refused()
	p := &picture{reconnects: c.link.Stats().Reconnects, until: c.now().Add(captureHolds), next: captureLook}
	names, err := streamsOver(ctx, c.link, c.subjects.ready(">"))
	denied := c.link.deniedSince(apiStreamNames, refusals)
	for _, name := range names {
		if err != nil {
			break
		}
		var found *captor
		if found, err = c.captor(ctx, name); found != nil {
			p.streams = append(p.streams, *found)
		}
		denied = denied || c.link.deniedSince(apiStreamInfo+name, refusals)
	}
	switch {
	case denied:
		p.streams, p.next, p.until = nil, deniedLook, c.now().Add(2*deniedLook)
		return p, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, errNoJetStream):
		return p, nil
	case err != nil:
		return nil, err
	}
	return p, nil
}

// captor asks what a stream captures; none where it is gone.
func (c *captures) captor(ctx context.Context, name string) (*captor, error) {
	var info struct {
		Config jetstream.StreamConfig `json:"config"`
	}
	err := askJetStream(ctx, c.link, apiStreamInfo+name, nil, &info)
	if errors.Is(err, errNoStream) {
		return nil, nil //nolint:nilnil // it was there a moment ago
	}
	if err != nil {
		return nil, err
	}
	found := &captor{mute: info.Config.NoAck}
	for _, subject := range info.Config.Subjects {
		found.filters = append(found.filters, strings.Split(subject, "."))
	}
	if found.mute && c.now().Sub(c.told) > time.Minute {
		c.told = c.now()
		c.log.Error().Str("stream", name).
			Msg("stream confirms nothing: jobs with a ttr of 0 are removed without knowing whether it has them; set no_ack to false")
	}
	return found, nil
}

var (
	errNoJetStream = errors.New("jetstream is not enabled")
	errNoStream    = errors.New("no such stream")
)

// streamsOver gives the streams that capture a subject or some of it.
func streamsOver(ctx context.Context, link *Link, subject string) ([]string, error) {
	var names []string
	for {
		request := map[string]any{"subject": subject, "offset": len(names)}
		var page struct {
			Total   int      `json:"total"`
			Streams []string `json:"streams"`
		}
		if err := askJetStream(ctx, link, apiStreamNames, request, &page); err != nil {
			return nil, err
		}
		names = append(names, page.Streams...)
		if len(page.Streams) == 0 || len(names) >= page.Total {
			return names, nil
		}
	}
}

// askJetStream sends a request to JetStream's API.
func askJetStream(ctx context.Context, link *Link, subject string, request, answer any) error {
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return fmt.Errorf("ask %s: %w", subject, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	msg, err := link.RequestWithContext(ctx, subject, data)
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err = json.Unmarshal(msg.Data, &refused); err == nil && refused.Error == nil {
		err = json.Unmarshal(msg.Data, answer)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	if refused.Error == nil {
		return nil
	}
	code := refused.Error.ErrorCode
	if code == jetstream.JSErrCodeJetStreamNotEnabled || code == jetstream.JSErrCodeJetStreamNotEnabledForAccount {
		return errNoJetStream
	}
	if code == jetstream.JSErrCodeStreamNotFound {
		return errNoStream
	}
	return fmt.Errorf("ask %s: %s", subject, refused.Error.Description)
}
