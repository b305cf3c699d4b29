package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/dqbridge/dqbridge/bench/peers"
)

// Options writes what each peer runs with, and why, as Markdown tables.
func Options(w io.Writer, all []peers.Peer) error {
	var b strings.Builder
	for _, peer := range all {
		fmt.Fprintf(&b, "\n**%s**\n\n| option | value | reason |\n| --- | --- | --- |\n", peer.Name())
		for _, o := range peer.Options() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", o.Name, o.Value, o.Reason)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
