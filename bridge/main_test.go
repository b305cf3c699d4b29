package bridge_test

import (
	"flag"
	"os"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) {
	// The contract's tests mostly wait for times to pass, so far more of them can run at once than there are cores.
	// A -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		os.Exit(1)
	}
	testenv.Main(m)
}
