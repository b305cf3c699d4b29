package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// read makes the job out of arguments and flags. It refuses what cannot be meant; limits are the bridge's to check.
func (p *push) read(cmd *cobra.Command, args []string) error {
	if p.delay != "" && p.at != "" {
		return usagef("--delay and --at exclude each other")
	}
	p.job.Topic = args[0]
	if p.replace {
		p.job.OnDuplicate = "replace"
	}
	if cmd.Flags().Changed("max-attempts") { // 0 says something: no limit, whatever the bridge's default
		p.job.MaxAttempts = client.Value(strconv.Itoa(p.limit))
	}
	for _, name := range []string{p.job.Topic, p.job.ID} {
		if !utf8.ValidString(name) {
			return usagef("%q is not UTF-8", name)
		}
	}
	err := errors.Join(
		readDelay("--delay", p.delay, &p.job.Delay),
		readDelay("--ttr", p.ttr, &p.job.TTR),
		readDelay("--expires", p.expires, &p.job.Expires),
		readMoment(p.at, &p.job.At),
		p.readBackoff(),
		p.readHeaders(),
	)
	if err != nil {
		return err
	}
	return p.readBody(args[1:])
}

func (p *push) readBackoff() error {
	for _, text := range p.backoff {
		var pause client.Value
		if err := readDelay("--backoff", strings.TrimSpace(text), &pause); err != nil {
			return err
		}
		p.job.Backoff = append(p.job.Backoff, pause)
	}
	return nil
}

func readDelay(flag, text string, value *client.Value) error {
	_, notNumber := strconv.ParseFloat(text, 64)
	_, notDuration := time.ParseDuration(text)
	if text != "" && notNumber != nil && notDuration != nil {
		return usagef("%s %q: want seconds as in 90 or 0.25, or a duration as in 1m30s", flag, text)
	}
	*value = client.Value(text)
	return nil
}

func readMoment(text string, value *client.Value) error {
	_, notNumber := strconv.ParseFloat(text, 64)
	_, notTime := time.Parse(time.RFC3339Nano, text)
	if text != "" && notNumber != nil && notTime != nil {
		return usagef("--at %q: want RFC 3339 as in 2030-01-31T08:00:00Z, or Unix seconds", text)
	}
	*value = client.Value(text)
	return nil
}

func (p *push) readHeaders() error {
	p.job.Headers = nats.Header{}
	for _, text := range p.headers {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" || strings.ContainsAny(name, ": \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return usagef("--header %q: want name=value", text)
		}
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "dq-") || strings.HasPrefix(lower, "nats-") {
			return usagef("--header %q: names that begin with Dq- and Nats- are the bridge's own", text)
		}
		p.job.Headers.Add(name, value)
	}
	return nil
}

func (p *push) readBody(args []string) error {
	if len(args) == 0 {
		return nil
	}
	body := []byte(args[0])
	if args[0] == "-" {
		var err error
		if body, err = io.ReadAll(p.env.Stdin); err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
	}
	switch {
	case p.job.Raw:
		p.job.Body = body
	case !utf8.Valid(body):
		return usagef("the body is not UTF-8 text: send it with --raw")
	case json.Valid(body):
		p.job.Body = body
	default:
		text, err := json.Marshal(string(body))
		if err != nil {
			return err
		}
		p.job.Body = text
	}
	return nil
}
