package whole_test

import (
	"flag"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) {
	// Most of these tests wait for something most of the time, so more of them than cores can run at once.
	// A -parallel of the command line, which is read later, wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}
