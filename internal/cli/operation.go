package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/client"
)

// bulkTimeout is longer than the bridge works on one kick or purge of a topic.
const bulkTimeout = 6 * time.Minute

// operation is a command that asks the bridge and shows the answer.
type operation struct {
	connection
	json bool
}

func (o *operation) addFlags(cmd *cobra.Command) {
	o.connection.addFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print the bridge's reply as it is, on one line")
}

// with calls do with a client, while the connection is open.
func (o *operation) with(do func(client.Client) error) error {
	nc, err := o.open(nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	return do(o.client(nc))
}

// admin asks for one verb over a connection of its own.
func (o *operation) admin(ctx context.Context, verb string, ask, data any) error {
	return o.with(func(bridge client.Client) error { return o.request(ctx, bridge, verb, ask, data) })
}

// request asks for one verb, and prints the reply where that is all that is wanted.
func (o *operation) request(ctx context.Context, bridge client.Client, verb string, ask, data any) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	reply, err := bridge.Admin(ctx, verb, ask, data)
	if printErr := o.printReply(reply); printErr != nil {
		return printErr
	}
	return o.explain(err)
}

// printReply prints a reply on one line. A body that was pushed with line ends would break it.
func (o *operation) printReply(reply client.Envelope) error {
	if !o.json || reply.Raw == nil {
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, reply.Raw); err != nil {
		line.Reset()
		line.Write(reply.Raw)
	}
	line.WriteByte('\n')
	_, err := o.env.Stdout.Write(line.Bytes())
	return err
}

// say prints a line of the result for people.
func (o *operation) say(format string, args ...any) error {
	if o.json {
		return nil
	}
	_, err := fmt.Fprintf(o.env.Stdout, format+"\n", args...)
	return err
}

// arguments wants so many of them, in UTF-8: a broken byte would be replaced on the way, and name another job.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		switch {
		case len(args) < least:
			return fmt.Errorf("%s wants %s, got %s", cmd.Name(), wanted, plural(len(args), "argument"))
		case len(args) > most:
			return fmt.Errorf("%s wants %s, got %s (quote one with blanks, and put flags before --)",
				cmd.Name(), wanted, plural(len(args), "argument"))
		}
		for _, arg := range args {
			if !utf8.ValidString(arg) {
				return fmt.Errorf("%s: %q is not UTF-8", cmd.Name(), arg)
			}
		}
		return nil
	}
}

// many is no limit on the number of arguments.
const many = int(^uint(0) >> 1)

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
