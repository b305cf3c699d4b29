package testenv_test

import (
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := testenv.NewRedisCluster(t, 3)
	if err := c.Client().Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	from, slot := c.Owner("a")
	to := c.Masters[0]
	if from == to {
		to = c.Masters[1]
	}
	c.BeginMove(slot, from, to)
	if n := c.MoveKeys(slot, 10, from, to); n != 1 {
		t.Errorf("%d keys are moved, should be 1", n)
	}
	c.EndMove(slot, from, to)
	if now, _ := c.Owner("a"); now != to {
		t.Error("the slot has not moved")
	}
	if got, err := c.Client().Get(t.Context(), "a").Result(); err != nil || got != "1" {
		t.Errorf("get gives %q, %v", got, err)
	}
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedisSentinel(t, 2)
	if s.Master() != s.Nodes[0] {
		t.Error("the first server is not the master")
	}
	s.Failover()
	if s.Master() == s.Nodes[0] {
		t.Error("the first server is still the master")
	}
}
