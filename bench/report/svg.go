package report

import "github.com/dqbridge/dqbridge/bench/load"

// Pictures writes.
func Pictures(dir string, figures []load.Figure) error { return nil }
