package dashboard_test

import (
	"flag"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// shots is a folder for pictures of what the tests see; empty: none are made.
var shots = flag.String("shots", "", "write screenshots into this folder")

func TestMain(m *testing.M) { testenv.Main(m) }
