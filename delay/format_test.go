package delay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// Options that a newer version added are passed over, whatever they hold.
func TestUnknownOptions(t *testing.T) {
	t.Parallel()
	want := Delivery{Job: Job{
		ID: "a", Topic: "t", TTR: 3 * time.Second, MaxAttempts: 4, Expires: time.Minute, Backoff: []time.Duration{time.Second}, Raw: true,
		Headers: []byte("hh"), Body: []byte("body"), Delay: time.Second,
	}, Push: 7, PushedAt: time.UnixMilli(1000), DueAt: time.UnixMilli(2000)}
	got := Delivery{Job: Job{ID: "a"}}
	record := "1e t 7 1000 2000 3000 z m4 x17 e60000 qm5,e1 b1000 zoned=Europe/Paris h2 r\nhhbody"
	if err := decodeRecord(&got, record, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Lease{})); diff != "" {
		t.Error(diff)
	}
}

// A job whose record is of a newer format is kept as it is by everything that does not name it, and no script stumbles over it.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{
		"a version that looks like ours": "2oe t 1 1000 2000 3000 e1 m1 b9\nbody",
		"a version that does not":        "17x{} t abc=\x01\n",
		"a new flag":                     "1q t 1 1000 2000 3000\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, ctx := testenv.SharedRedis(t).Client(), t.Context()
			s := NewStore(client, StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1, MaxDelay: time.Hour})
			k := s.buckets[0]
			client.HSet(ctx, k.fixed[keyPool], "new", record)
			client.ZAdd(ctx, k.fixed[keyBucket], redis.Z{Member: "new", Score: 1000})
			client.HSet(ctx, k.fixed[keyTopics], "d:t", 1)
			for _, p := range s.Push(ctx, []Job{{ID: "old", Topic: "t", TTR: time.Second, MaxAttempts: 1, Body: []byte("1")}}) {
				if p.Err != nil {
					t.Fatal(p.Err)
				}
			}
			if _, err := s.Promote(ctx, 0, Offer{}, nil); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				r, err := s.Reserve(ctx, "me", [][]Want{{{Topic: "t", N: 10}}})
				if err != nil || len(r[0].Topics) != 1 {
					t.Fatal(r, err)
				}
				for _, d := range r[0].Topics[0].Deliveries {
					if d.ID != "old" {
						t.Errorf("delivered %+v", d)
					}
				}
			}
			if p := s.Push(ctx, []Job{{ID: "new", Topic: "t", TTR: time.Second}})[0]; !p.Duplicate || p.State != Ready {
				t.Errorf("pushed again: %+v", p)
			}
			if job, err := s.Get(ctx, "new"); err == nil || !strings.Contains(err.Error(), "format") {
				t.Errorf("get: %+v, %v", job, err)
			}
			if moved, err := s.Reschedule(ctx, "new", time.Hour, time.Time{}); err != nil {
				t.Errorf("rescheduled: %+v, %v", moved, err)
			}
			for _, ended := range s.Bury(ctx, []Ack{{ID: "new"}}) {
				if ended.Err != nil {
					t.Error(ended.Err)
				}
			}
			if kicked := s.Kick(ctx, []string{"new"})[0]; kicked.Err == nil {
				t.Errorf("kicked: %+v", kicked)
			}
			var kinds []string
			jobs, err := NewChecker(s, true, func(f Finding) {
				if f.Kind != FoundStale { // the list entry of a job that was rescheduled or buried
					kinds = append(kinds, fmt.Sprint(f.Kind, f.Mended))
				}
			}).Run(ctx)
			if err != nil || jobs != 2 || !cmp.Equal(kinds, []string{FoundUnknown + "false"}) {
				t.Errorf("the check of %d jobs finds %v (%v)", jobs, kinds, err)
			}
			if got := client.HGet(ctx, k.fixed[keyPool], "new").Val(); got != record {
				t.Errorf("the record is %q now", got)
			}
		})
	}
}
