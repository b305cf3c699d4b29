package delay

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestDialSchemes: which addresses make which client, and over TLS or not.
func TestDialSchemes(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	for address, overTLS := range map[string]bool{
		"redis://u:p@a:1/2":               false,
		"rediss://u:p@a:1/2":              true,
		"unix://u:p@/run/redis.sock?db=2": false,
		"redis+cluster://u:p@a:1,b:2":     false,
		"rediss+cluster://u:p@a:1,b:2":    true,
		"redis+sentinel://u:p@a:1,b:2/m":  false,
		"rediss+sentinel://u:p@a:1,b:2/m": true,
		"redis+sentinel://u:p@a:1/m?sentinel_username=su&sentinel_password=sp": false,
	} {
		for _, file := range []string{"", ca.File} {
			client, err := Dial(RedisOptions{URL: address, CA: file, Log: zerolog.Nop()})
			if err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			user, password, security := credentials(t, client)
			if user != "u" || password != "p" || (security != nil) != (overTLS || file != "") {
				t.Errorf("%s with CA %q: user %q, password %q, TLS %v", address, file, user, password, security != nil)
			}
			_ = client.Close()
		}
	}
	for _, address := range []string{"redis+other://S3CRET@a:1", "http+cluster://S3CRET@a:1", "redis://:S3CRET@a:1/x", "redis://a:S3CRET%zz@b"} {
		if _, err := Dial(RedisOptions{URL: address, Log: zerolog.Nop()}); err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func credentials(t *testing.T, client redis.UniversalClient) (string, string, *tls.Config) {
	t.Helper()
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		return o.Username, o.Password, o.TLSConfig
	case *redis.ClusterClient:
		o := client.Options()
		return o.Username, o.Password, o.TLSConfig
	}
	t.Fatalf("a client of type %T", client)
	return "", "", nil
}

// TestKeptConnectionsAreLookedAt: a call never goes to a connection that the server has ended while nobody used it, since
// then nobody could say whether it was carried out.
func TestKeptConnectionsAreLookedAt(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	client, err := Dial(RedisOptions{URL: redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 3 {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := redis.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
}
