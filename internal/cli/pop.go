package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// popMargin is how much longer than its wait a pop has to be waited for, or its job is lost until the TTR ends.
const popMargin = 2 * time.Second

// pop is the command `dqbridge pop`.
type pop struct {
	operation
	wait string
	ack  bool
}

const popLong = `Take the next ready job of TOPIC. Its body goes to standard output, byte for byte where it was pushed so, and what
else there is to know to standard error. With --json all of it is one line of JSON on standard output.

Without --ack the job comes again after its time to run, unless it is finished before: dqbridge finish ID. With --ack
it is finished as soon as its body is written. Where there is no job the exit code is 1.`

func newPop(env Env) *cobra.Command {
	p := &pop{operation: operation{connection: connection{env: env}}}
	cmd := &cobra.Command{
		Use: "pop TOPIC", Short: "take one ready job", Long: popLong,
		Example: "  dqbridge pop mail\n  dqbridge pop mail --wait 30s --ack\n  dqbridge pop images --ack > picture.png",
		Args:    arguments(1, 1), ValidArgsFunction: p.completeTopic,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.addFlags(cmd)
	cmd.Flags().StringVar(&p.wait, "wait", "", "`time` to wait for a job, up to 1m")
	cmd.Flags().BoolVar(&p.ack, "ack", false, "finish the job")
	cmd.Flags().Lookup("json").Usage = "print the job with all there is to know as one line of JSON"
	return cmd
}

func (p *pop) run(ctx context.Context, topic string) error {
	wait, err := readWait(p.wait)
	if err != nil {
		return err
	}
	return p.with(func(bridge client.Client) error {
		waiting, cancel := context.WithTimeout(ctx, wait+max(p.timeout, popMargin))
		defer cancel()
		msg, reply, err := bridge.Pop(waiting, topic, client.Value(p.wait))
		if err != nil {
			if printErr := p.printReply(reply); printErr != nil {
				return printErr
			}
			if errors.Is(err, client.ErrNoSubject) {
				return &UsageError{err}
			}
			return p.explain(err)
		}
		// It is taken: from here on the user's Ctrl-C must not leave it half done.
		return p.handle(context.WithoutCancel(ctx), bridge, msg)
	})
}

// readWait gives the length of a wait in the forms of the contract, to know how long an answer may take.
func readWait(text string) (time.Duration, error) {
	var checked client.Value
	if err := readDelay("--wait", text, &checked); err != nil || text == "" {
		return 0, err
	}
	wait, err := time.ParseDuration(text)
	if err != nil {
		wait, err = time.ParseDuration(text + "s")
	}
	if err != nil { // such as 1e1: it is a number, and longer waits than a minute are refused
		wait = time.Minute
	}
	return max(wait, 0), nil
}

func (p *pop) handle(ctx context.Context, bridge client.Client, msg *nats.Msg) error {
	d, err := client.ParseDelivery(msg)
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if err := p.print(d); err != nil {
		return fmt.Errorf("write the job %s, which comes again after its TTR: %w", plain(d.ID), err)
	}
	if p.ack {
		acking, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		if _, err := bridge.Ack(acking, msg); err != nil {
			return fmt.Errorf("finish %s: %w", plain(d.ID), p.explain(err))
		}
	}
	p.noteFate(d)
	return nil
}

func (p *pop) print(d client.Delivery) error {
	if p.json {
		return p.printJSON(d)
	}
	body := d.Body
	if p.env.Terminal {
		body = readable(body)
	}
	if !d.Raw || p.env.Terminal && !bytes.HasSuffix(body, []byte("\n")) {
		body = append(bytes.Clone(body), '\n')
	}
	_, err := p.env.Stdout.Write(body)
	return err
}

// popped is a job as --json prints it, with the names of the contract.
type popped struct {
	ID      string          `json:"id"`
	Topic   string          `json:"topic"`
	Attempt int             `json:"attempt"`
	DueAt   time.Time       `json:"due_at"`
	TTR     client.Seconds  `json:"ttr"`
	Ack     string          `json:"ack"`
	Headers nats.Header     `json:"headers,omitempty"`
	Body    json.RawMessage `json:"body,omitzero"`
	Base64  []byte          `json:"body_base64,omitzero"`
}

func (p *pop) printJSON(d client.Delivery) error {
	out := popped{ID: d.ID, Topic: d.Topic, Attempt: d.Attempt, DueAt: d.DueAt, TTR: d.TTR, Ack: d.Ack, Headers: d.Headers}
	if d.Raw {
		out.Base64 = append([]byte{}, d.Body...) // never nil: an empty body is one too
	} else {
		out.Body = d.Body
	}
	encoder := json.NewEncoder(p.env.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(out)
}

// noteFate tells what happens to the job now.
func (p *pop) noteFate(d client.Delivery) {
	if p.json {
		return
	}
	p.note("%s, attempt %d of topic %s", plain(d.ID), d.Attempt, plain(d.Topic))
	switch {
	case p.ack:
		p.note("finished")
	case d.TTR == 0:
		p.note("gone: its TTR is 0, so it does not come again")
	default:
		p.note("ack subject %s\ncomes again in %s unless it is finished: dqbridge finish %s",
			d.Ack, period(d.TTR.Duration()), shellWord(d.ID))
	}
}

// readable makes a body fit for a terminal, which obeys control characters. Lines and tabs stay, all else that is not
// text is escaped.
func readable(body []byte) []byte {
	var out []byte
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, body[0])
		case r == '\n', r == '\t':
			out = append(out, byte(r))
		default:
			out = append(out, plain(string(r))...)
		}
		body = body[size:]
	}
	return out
}

// shellWord is a text as a shell takes it for one argument that is no flag.
func shellWord(text string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:@/+"
	quoted := text
	if text == "" || strings.Trim(text, safe) != "" {
		quoted = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	if strings.HasPrefix(text, "-") {
		return "-- " + quoted
	}
	return quoted
}
