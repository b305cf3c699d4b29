package delay

import (
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
