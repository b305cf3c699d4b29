package delay

import (
	"errors"
	"strconv"
	"strings"
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

// TestPlainPush: a job that is pushed alone, which plain.lua stores, is stored as one that push.lua stores.
func TestPlainPush(t *testing.T) {
	t.Parallel()
	client := testenv.SharedRedis(t).Client()
	store := NewStore(client, StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
	job := Job{Topic: "t", Delay: 5 * time.Second, TTR: time.Minute, Body: []byte(`{"a":1}`), MaxAttempts: 3}
	alone, first, second := job, job, job
	alone.ID, first.ID, second.ID = "alone", "first", "second"
	pushed := store.Push(t.Context(), []Job{first, second})
	pushed = append(pushed, store.Push(t.Context(), []Job{alone})...)
	keys := store.buckets[0].fixed
	shapes := make(map[string]bool)
	for i, id := range []string{"first", "second", "alone"} {
		record := strings.SplitN(client.HGet(t.Context(), keys[keyPool], id).Val(), " ", 6)
		if len(record) != 6 {
			t.Fatalf("record of %s: %q", id, record)
		}
		if record[2] != strconv.Itoa(i+1) {
			t.Errorf("push of %s is %s, want %d", id, record[2], i+1)
		}
		from, to := number(record[3]), number(record[4])
		score := int64(client.ZScore(t.Context(), keys[keyBucket], id).Val())
		if to-from != 5000 || score != to || pushed[i].Err != nil || pushed[i].DueAt.UnixMilli() != to || pushed[i].State != Delayed {
			t.Errorf("%s: %+v, record %q, score %d", id, pushed[i], record, score)
		}
		shapes[record[0]+" "+record[1]+" "+record[5]] = true
	}
	if len(shapes) != 1 {
		t.Errorf("records differ: %v", shapes)
	}
	if n := client.HGet(t.Context(), keys[keyTopics], "d:t").Val(); n != "3" {
		t.Errorf("%s jobs are counted, want 3", n)
	}
	if again := store.Push(t.Context(), []Job{alone}); !again[0].Duplicate {
		t.Errorf("pushed again: %+v", again)
	}
}
