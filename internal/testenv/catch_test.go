package testenv_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// A request that is caught was carried out, or not, as the moment says, and the ones of other connections pass.
func TestProxyCatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at   testenv.Moment
		done bool
	}{
		"before the request": {testenv.BeforeRequest, false},
		"before the reply":   {testenv.BeforeReply, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t)
			proxy := testenv.NewProxy(t, server.Addr())
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
			defer client.Close()
			for round, release := range []func(){proxy.Heal, func() { proxy.Drop(); proxy.Heal() }} {
				client.Del(t.Context(), "before", "caught", "after")
				held := proxy.Catch(test.at, func(words []string) bool {
					return slices.Equal(words, []string{"set", "caught"})
				})
				ended := make(chan error, 1)
				go func() {
					pipe := client.Pipeline()
					pipe.Set(t.Context(), "before", strings.Repeat("*2\r\n", 20_000), 0)
					pipe.Set(t.Context(), "caught", "x", 0)
					pipe.Set(t.Context(), "after", "x", 0)
					_, err := pipe.Exec(t.Context())
					ended <- err
				}()
				<-held
				there := func(key string) bool { return client.Exists(t.Context(), key).Val() == 1 }
				testenv.Eventually(t, 5*time.Second, func() bool { return there("before") }, "what comes before it passes")
				if there("caught") != test.done || there("after") {
					t.Errorf("round %d: carried out %v, and what comes behind it %v", round, there("caught"), there("after"))
				}
				release()
				if err := <-ended; (err == nil) != (round == 0) {
					t.Errorf("round %d: %v", round, err)
				}
				if want := test.done || round == 0; there("caught") != want || there("after") != (round == 0) {
					t.Errorf("round %d, at its end: %v, %v", round, there("caught"), there("after"))
				}
			}
		})
	}
}
