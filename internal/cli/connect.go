package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

const (
	defaultURL = "nats://127.0.0.1:4222"
	// maxDial keeps a command that may wait long for its answer from waiting so long for a server that is not there.
	maxDial = 10 * time.Second
)

// connection is how a command reaches the bridge: flags, else the bridge's own variables.
type connection struct {
	env         Env
	url         string
	prefix      string
	inboxPrefix string
	timeout     time.Duration
}

// addFlags leaves the defaults out of the flags: a URL in a variable may hold a password, and help prints defaults.
func (c *connection) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.url, "nats", "", "NATS `URL` (DQ_NATS_URL, else "+defaultURL+")")
	flags.StringVar(&c.prefix, "prefix", "", "`prefix` of the bridge's subjects (DQ_PREFIX, else dq)")
	flags.StringVar(&c.inboxPrefix, "inbox-prefix", "", "`prefix` of reply subjects, where permissions ask for one")
	flags.DurationVar(&c.timeout, "timeout", 5*time.Second, "how long to wait for the bridge's answer")
}

// open connects. The caller closes.
func (c *connection) open(extra ...nats.Option) (*nats.Conn, error) {
	c.url = cmp.Or(c.url, c.env.Getenv("DQ_NATS_URL"), defaultURL)
	c.prefix = cmp.Or(c.prefix, c.env.Getenv("DQ_PREFIX"), "dq")
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(c.url, append(options, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.env.Redact(c.url), withoutURL(err))
	}
	return nc, nil
}

func (c *connection) options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name("dqbridge command"), nats.Timeout(min(c.timeout, maxDial)), nats.MaxReconnects(-1)}
	if c.inboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(c.inboxPrefix))
	}
	if file := c.env.Getenv("DQ_NATS_CREDS"); file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if file := c.env.Getenv("DQ_NATS_NKEY"); file != "" {
		nkey, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return nil, usagef("read DQ_NATS_NKEY: %w", err)
		}
		options = append(options, nkey)
	}
	if file := c.env.Getenv("DQ_NATS_CA"); file != "" {
		options = append(options, nats.RootCAs(file))
	}
	if file := c.env.Getenv("DQ_NATS_CERT"); file != "" {
		options = append(options, nats.ClientCert(file, c.env.Getenv("DQ_NATS_KEY")))
	}
	return options, nil
}

func (c *connection) client(nc *nats.Conn) client.Client { return client.New(nc, c.prefix) }

// explain turns an answer that did not come into what the user can look at.
func (c *connection) explain(err error) error {
	switch {
	case errors.Is(err, client.ErrNoBridge):
		return fmt.Errorf("no bridge answers under the prefix %q at %s: is it running?", c.prefix, c.env.Redact(c.url))
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	default:
		return err
	}
}

// note tells the user something that is not output. A terminal that cannot show it is no reason to stop.
func (c *connection) note(format string, args ...any) {
	_, _ = fmt.Fprintf(c.env.Stderr, format+"\n", args...)
}

// withoutURL takes the address out of an error: url.Error holds it with its password.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}
