package delay

import (
	"errors"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestIDTwiceInACall: the second push of an id in one call finds the first, also where both ids are made of places in a stream.
func TestIDTwiceInACall(t *testing.T) {
	t.Parallel()
	store := NewStore(testenv.SharedRedis(t).Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
	for _, origins := range [][2]Origin{
		{},
		{{Seq: 1, Mark: "1@x", Generated: true}, {Seq: 2, Mark: "2@x", Generated: true}},
	} {
		id := origins[0].Mark + "twice"
		done := store.Push(t.Context(), []Job{
			{ID: id, Topic: "a", Origin: origins[0]}, {ID: id, Topic: "b", Origin: origins[1]},
		})
		if done[0].Err != nil || !errors.Is(done[1].Err, ErrOtherTopic) {
			t.Errorf("origins %+v: %+v", origins, done)
		}
	}
}
