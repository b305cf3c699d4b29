package delay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// BenchmarkScripts takes jobs of one bucket through their lives in batches, and tells what a job costs Redis's main thread
// on the way: redis-µs/push and so on.
func BenchmarkScripts(b *testing.B) {
	for _, batch := range []int{1, 8, 32, 128} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) {
			redis := testenv.Redis(b, "--appendonly", "yes")
			store := NewStore(redis.Client(), StoreOptions{Prefix: testenv.Prefix(b), Buckets: 1, MaxDelay: time.Hour})
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
					for range max(1, calls*batch/promoteBatch) {
						if _, err := store.Promote(b.Context(), 0, nil); err != nil {
							b.Fatal(err)
						}
					}
				})
				var all [][]Delivery
				measure("reserve", func() {
					for range calls {
						got, err := store.Reserve(b.Context(), "0-replica", [][]Want{{{Topic: "mail.eu", N: batch}}})
						if err != nil {
							b.Fatal(err)
						}
						all = append(all, got[0].Topics[0].Deliveries)
					}
				})
				measure("confirm", func() {
					for _, deliveries := range all {
						leases := make([]Lease, len(deliveries))
						for i, d := range deliveries {
							leases[i] = Lease{ID: d.ID, Token: d.Token, TTR: time.Minute}
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
