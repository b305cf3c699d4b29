package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/dqbridge/dqbridge/delay"
)

const (
	serviceName = "dqbridge"
	// serviceGroup is the queue group of all replicas: each request goes to one of them.
	serviceGroup = "dqbridge"
	// rollCall is how long other bridges have to answer at start, where there are any.
	rollCall = time.Second

	metaStore  = "store"
	metaPrefix = "prefix"
	metaStream = "push_stream"
)

// ErrOtherStore says that bridges with another store serve the same prefix on this NATS.
var ErrOtherStore = errors.New("another store is served under this prefix")

// serve registers the bridge as a NATS micro service, and with it the subscriptions to all requests.
func (b *Bridge) serve() (micro.Service, error) {
	service, err := micro.AddService(b.link.Conn, micro.Config{
		Name: serviceName, Version: semver(b.options.Version), Description: "delay queue on NATS and Redis",
		QueueGroup: serviceGroup,
		Metadata: map[string]string{
			metaStore: b.queue.ID(), metaPrefix: b.options.Prefix, metaStream: b.options.PushStream,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("register service: %w", err)
	}
	for _, e := range b.endpoints() {
		err := service.AddEndpoint(e.name, micro.HandlerFunc(e.handle), micro.WithEndpointSubject(e.subject),
			micro.WithEndpointQueueGroup(cmp.Or(e.group, serviceGroup)),
			micro.WithEndpointPendingLimits(intakePending, intakePendingBytes))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("register %s: %w", e.name, err), service.Stop())
		}
	}
	return service, nil
}

// endpoint is one kind of request.
type endpoint struct {
	name, subject string
	handle        func(micro.Request)
	// group is its queue group, empty: serviceGroup. Of one group only one subscription gets a message, also where
	// their subjects differ, so an endpoint whose subject takes in others has a group of its own.
	group string
}

func (b *Bridge) endpoints() []endpoint {
	list := []endpoint{{name: "pop", subject: b.subjects.pop(), handle: b.acks.handlePop}}
	if b.pulls == nil {
		list = append(list, endpoint{name: "push", subject: b.subjects.push(), handle: b.intake.handle},
			endpoint{name: "push-topic", subject: b.subjects.pushes(), handle: b.intake.handle})
	}
	for _, verb := range []delay.Verb{delay.VerbFinish, delay.VerbTouch, delay.VerbRelease, delay.VerbBury} {
		list = append(list, endpoint{name: string(verb), subject: b.subjects.verb(string(verb)), handle: b.acks.byID(verb)})
	}
	return append(list, b.admin.endpoints()...)
}

// What waits in the client for a request's handler. Plain pushes beyond it are lost, as NATS does with a slow
// consumer; nats.go reports it.
const (
	intakePending      = 1 << 20
	intakePendingBytes = 128 << 20
)

// semver gives a form of a version that micro accepts: what is no semantic version becomes a pre-release of 0.0.0.
func semver(version string) string {
	version = strings.TrimPrefix(version, "v")
	if strings.Count(version, ".") >= 2 && version[0] >= '0' && version[0] <= '9' {
		return version
	}
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && plainToken(string(r)) && r != '_' {
			return r
		}
		return '-'
	}, version)
	return "0.0.0-g" + clean
}

// checkOthers asks who serves this prefix already, and refuses where that is somebody with another store, or who takes
// pushes from elsewhere: the two would split the pushes between them, or both take them.
func (b *Bridge) checkOthers() error {
	subject, err := micro.ControlSubject(micro.InfoVerb, serviceName, "")
	if err != nil {
		return fmt.Errorf("ask for other bridges: %w", err)
	}
	inbox := b.link.NewInbox()
	sub, err := b.link.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("ask for other bridges: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is gone
	if err := b.link.PublishRequest(subject, inbox, nil); err != nil {
		return fmt.Errorf("ask for other bridges: %w", err)
	}
	for deadline := b.now().Add(rollCall); ; {
		msg, err := sub.NextMsg(max(deadline.Sub(b.now()), time.Millisecond))
		if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ask for other bridges: %w", err)
		}
		var info micro.Info
		if json.Unmarshal(msg.Data, &info) != nil || info.Metadata[metaPrefix] != b.options.Prefix {
			continue
		}
		if err := b.checkOther(info.Metadata); err != nil {
			return err
		}
	}
}

// checkOther holds what another bridge of this prefix says of itself against this one.
func (b *Bridge) checkOther(meta map[string]string) error {
	if store := meta[metaStore]; store != b.queue.ID() {
		return fmt.Errorf("%w: %q has store %s, this bridge store %s", ErrOtherStore, b.options.Prefix, store, b.queue.ID())
	}
	if stream := meta[metaStream]; stream != b.options.PushStream {
		return fmt.Errorf("%w: a bridge that serves %q has DQ_PUSH_STREAM=%q, this one %q: stop all, then start them with one setting",
			ErrPushStream, b.options.Prefix, stream, b.options.PushStream)
	}
	return nil
}

// ErrStream says that a stream captures subjects whose requests the bridge answers: the first answer would be the
// stream's.
var ErrStream = errors.New("a stream captures subjects of the bridge")

// checkStreams refuses where a stream captures what bridges answer, but for the pushes of the stream that they come from.
// A NATS without JetStream, or one that does not tell this account, has none.
func (b *Bridge) checkStreams(ctx context.Context) error {
	taken := []string{b.subjects.push(), b.subjects.pushes(), b.subjects.pop(), b.options.Prefix + ".ack.>", b.subjects.admin("*")}
	for _, verb := range []delay.Verb{delay.VerbFinish, delay.VerbTouch, delay.VerbRelease, delay.VerbBury} {
		taken = append(taken, b.subjects.verb(string(verb)))
	}
	for i, subject := range taken {
		pushes := i < 2
		names, err := streamsOver(ctx, b.link, subject)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		names = slices.DeleteFunc(names, func(name string) bool { return pushes && name == b.options.PushStream })
		if len(names) == 0 {
			continue
		}
		return fmt.Errorf("%w: stream %s captures %s or some of it; %s", ErrStream, names[0], subject, b.advice(names[0], pushes))
	}
	return nil
}

// advice says what to do about a stream that captures what it should not.
func (b *Bridge) advice(stream string, pushes bool) string {
	switch {
	case stream == b.options.PushStream:
		return "let it capture " + b.subjects.push() + " and " + b.subjects.pushes() + " alone"
	case pushes && b.options.PushStream == "":
		return "let it capture no more than " + b.subjects.ready(">") + ", or take all pushes from it with DQ_PUSH_STREAM=" + stream
	}
	return "let it capture no more than " + b.subjects.ready(">")
}
