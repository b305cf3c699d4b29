package delay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// call is one script call on its way.
type call struct {
	script *script
	keys   []string
	args   []any
	// texts are those that args only points to.
	texts []string
	// replicas is how many of Redis's replicas must hold what the call wrote.
	replicas int
	// jobs is how many jobs the call is for; 0: that is not known before its answer, or means nothing.
	jobs  int
	reply any
	err   error
}

// bucketCall begins a call of a bucket's script.
func (s *Store) bucketCall(sc *script, b, args int) *call {
	c := &call{script: sc, keys: s.buckets[b].fixed, args: make([]any, 0, args+2)}
	c.args = append(c.args, s.buckets[b].lists, s.shift().Milliseconds())
	return c
}

// addText adds an argument without the piece of memory that an interface takes for a string.
func (c *call) addText(text string) {
	c.texts = append(c.texts, text)
	c.args = append(c.args, &c.texts[len(c.texts)-1])
}

// work is a batch of one verb: its calls, and what to make of their replies once they are sent.
type work[R any] struct {
	calls   []*call
	results func() []R
}

// perform sends the calls of a work and gives its results; each call has its own error.
func perform[R any](ctx context.Context, s *Store, w work[R]) []R {
	_ = s.send(ctx, w.calls...)
	return w.results()
}

// send carries out calls in one pipeline for each node and returns the error of the first that has one.
func (s *Store) send(ctx context.Context, calls ...*call) error {
	if s.meter != nil {
		defer s.measure(calls, s.now())
	}
	if node, alone := s.client.(*redis.Client); alone {
		sendTo(ctx, node, calls, false)
	} else {
		s.sendToCluster(ctx, calls)
	}
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// sendTo runs calls on one node. A call that finds its script missing ran nothing: it alone is sent again, with the source.
func sendTo(ctx context.Context, node *redis.Client, calls []*call, asking bool) {
	p := pipeline{node: node, asking: asking}
	if missing := p.run(ctx, calls); len(missing) > 0 {
		p.source = true
		p.run(ctx, missing)
	}
}

// pipeline is one way of sending calls to a node.
type pipeline struct {
	node *redis.Client
	// source sends the source of the scripts instead of their names.
	source bool
	// asking says before each call that its slot is being moved to this node.
	asking bool
}

// run sends calls and gives those whose script was missing.
func (p pipeline) run(ctx context.Context, calls []*call) []*call {
	pipe := p.node.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		if p.asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking")) // a pipeline only queues
		}
		commands[i] = redis.NewCmd(ctx, c.command(p.source)...)
		_ = pipe.Process(ctx, commands[i])
	}
	held := waitFor(ctx, pipe, calls)
	_, _ = pipe.Exec(ctx) // each command has its own error
	var missing []*call
	for i, c := range calls {
		reply, err := commands[i].Result()
		if err != nil && !p.source && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			missing = append(missing, c)
			continue
		}
		c.reply, c.err = reply, unavailable(err)
		if c.err == nil && held != nil {
			c.err = c.heldBy(held)
		}
	}
	return missing
}

// waitFor adds a WAIT where a call wants replicas: in the pipeline, since it counts the writes of its own connection.
func waitFor(ctx context.Context, pipe redis.Pipeliner, calls []*call) *redis.IntCmd {
	most := 0
	for _, c := range calls {
		most = max(most, c.replicas)
	}
	if most == 0 {
		return nil
	}
	held := redis.NewIntCmd(ctx, "wait", most, (callTimeout / 2).Milliseconds())
	_ = pipe.Process(ctx, held) // a pipeline only queues
	return held
}

// errFewReplicas: Redis has what a call wrote, and too few of its replicas do.
var errFewReplicas = errors.New("too few replicas hold it")

// heldBy gives an error where fewer replicas than wanted hold what the call wrote, or nobody knows how many.
func (c *call) heldBy(held *redis.IntCmd) error {
	n, err := held.Result()
	switch {
	case c.replicas == 0:
		return nil
	case err != nil:
		return &UnavailableError{Maybe: true, Cause: errors.Join(errors.New("nobody knows how many replicas hold it"), err)}
	case n < int64(c.replicas):
		return &UnavailableError{Maybe: true, Cause: fmt.Errorf("%w: %d of %d", errFewReplicas, n, c.replicas)}
	}
	return nil
}

func (c *call) command(source bool) []any {
	command := make([]any, 0, 3+len(c.keys)+len(c.args))
	if source {
		command = append(command, "eval", c.script.source)
	} else {
		command = append(command, "evalsha", c.script.sha)
	}
	command = append(command, len(c.keys))
	for i := range c.keys {
		command = append(command, &c.keys[i])
	}
	return append(command, c.args...)
}
