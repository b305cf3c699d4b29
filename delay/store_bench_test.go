package delay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// BenchmarkScripts takes jobs through their lives in batches, and tells what a job costs Redis's main thread on the way:
// redis-µs/push and so on. A batch is one pipeline, with a script for each bucket.
func BenchmarkScripts(b *testing.B) {
	for _, row := range []struct{ batch, buckets int }{{1, 1}, {8, 1}, {128, 1}, {64, 8}, {1024, 8}} {
		b.Run(fmt.Sprintf("%d in %d", row.batch, row.buckets), func(b *testing.B) {
			batch := row.batch
			redis := testenv.Redis(b, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
			store := NewStore(redis.Client(), StoreOptions{Prefix: testenv.Prefix(b), Buckets: row.buckets, MaxDelay: time.Hour})
			shift := time.Duration(0)
			store.shift = func() time.Duration { return shift }
			spent := map[string]time.Duration{}
			measure := func(verb string, work func()) {
				before := mainThread(b, redis)
				work()
				spent[verb] += mainThread(b, redis) - before
			}
			rounds := 0
			for b.Loop() {
				const calls = 64
				rounds += calls * batch
				measure("push", func() {
					for c := range calls {
						store.Push(b.Context(), benchJobs(rounds, c, batch))
					}
				})
				shift += 2 * time.Second
				measure("promote", func() {
					for bucket := range row.buckets {
						for more := true; more; {
							p, err := store.Promote(b.Context(), bucket, Offer{}, nil)
							if err != nil {
								b.Fatal(err)
							}
							more = p.More > 0
						}
					}
				})
				var all [][]Delivery
				measure("reserve", func() {
					wants := make([][]Want, row.buckets)
					for i := range wants {
						wants[i] = []Want{{Topic: "mail.eu", N: max(1, batch/row.buckets)}}
					}
					for more := true; more; {
						got, err := store.Reserve(b.Context(), "0-replica", wants)
						if err != nil {
							b.Fatal(err)
						}
						var deliveries []Delivery
						for _, bucket := range got {
							deliveries = append(deliveries, bucket.Topics[0].Deliveries...)
						}
						all = append(all, deliveries)
						more = len(deliveries) > 0
					}
				})
				measure("confirm", func() {
					for _, deliveries := range all {
						leases := make([]Lease, len(deliveries))
						for i, d := range deliveries {
							leases[i] = d.Lease
							leases[i].TTR = time.Minute
						}
						if _, err := store.Confirm(b.Context(), leases); err != nil {
							b.Fatal(err)
						}
					}
				})
				measure("finish", func() {
					for _, deliveries := range all {
						acks := make([]Ack, len(deliveries))
						for i, d := range deliveries {
							acks[i] = Ack{ID: d.ID, Push: d.Push, Token: d.Token}
						}
						for _, s := range store.Finish(b.Context(), acks) {
							if s.Err != nil || !s.Finished {
								b.Fatalf("finish: %+v", s)
							}
						}
					}
				})
			}
			for verb, d := range spent {
				b.ReportMetric(float64(d.Nanoseconds())/1e3/float64(rounds), "redis-µs/"+verb)
			}
		})
	}
}

func benchJobs(round, c, batch int) []Job {
	jobs := make([]Job, batch)
	for i := range jobs {
		jobs[i] = Job{
			ID: fmt.Sprintf("job-%d-%d-%d", round, c, i), Topic: "mail.eu", Delay: time.Second, TTR: time.Minute,
			Body: []byte(`"` + strings.Repeat("x", 98) + `"`),
		}
	}
	return jobs
}

// mainThread is the CPU time that Redis's main thread has used.
func mainThread(b *testing.B, redis *testenv.RedisServer) time.Duration {
	b.Helper()
	info, err := redis.Client().Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var total time.Duration
	for _, field := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		seconds, err := strconv.ParseFloat(infoFields(info)[field], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total
}
