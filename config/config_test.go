package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dqbridge/dqbridge/config"
)

// setEnv makes vars the only DQ_ variables of the process, which is why no test that calls it is parallel.
func setEnv(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "DQ_") {
			t.Setenv(name, value) // so that the test's end brings it back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
}

func defaults() config.Config {
	return config.Config{
		NATS:            config.NATS{URL: "nats://127.0.0.1:4222"},
		Redis:           config.Redis{URL: "redis://127.0.0.1:6379/0"},
		Store:           config.Store{Prefix: "dq", Buckets: 8, Tick: time.Second},
		Jobs:            config.Jobs{DefaultTTR: time.Minute, MaxDelay: 87600 * time.Hour, MaxBody: 1_000_000, MaxInflight: 1000},
		Dead:            config.Dead{Retention: 336 * time.Hour, Max: 1_000_000},
		HTTP:            config.HTTP{Addr: "127.0.0.1:8080"},
		Log:             config.Log{Level: "info", Format: "auto"},
		ShutdownTimeout: 25 * time.Second,
	}
}

func writeFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadDefaults(t *testing.T) {
	// Names without DQ_ belong to other programs, and a name is matched to its last letter.
	setEnv(t, map[string]string{"NATS_URL": "nats://other:1", "PREFIX": "other", "TICK": "2s", "XDQ_TICK": "3s"})
	got, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestLoadEveryVariable(t *testing.T) {
	file := writeFile(t, "some.pem")
	setEnv(t, map[string]string{
		"DQ_NATS_URL": "tls://u:p@a:4222,tls://b", "DQ_NATS_CREDS": file,
		"DQ_NATS_CA": file, "DQ_NATS_CERT": file, "DQ_NATS_KEY": file,
		"DQ_REDIS_URL": "redis+cluster://a:1,b:2", "DQ_REDIS_CA": file, "DQ_REDIS_CERT": file, "DQ_REDIS_KEY": file,
		"DQ_REDIS_WAIT_REPLICAS": "2", "DQ_PREFIX": "my_app.dq-1", "DQ_BUCKETS": "1024", "DQ_TICK": "10ms",
		"DQ_DEFAULT_TTR": "0", "DQ_MAX_ATTEMPTS": "5", "DQ_MAX_DELAY": "876600h", "DQ_MAX_BODY": "67108864", "DQ_MAX_INFLIGHT": "1",
		"DQ_DEAD_RETENTION": "0s", "DQ_DEAD_MAX": "0", "DQ_PUSH_STREAM": "PUSHES", "DQ_HTTP_ADDR": "", "DQ_HTTP_TOKEN": "t0ken+/=",
		"DQ_PPROF": "true", "DQ_LOG_LEVEL": "debug", "DQ_LOG_FORMAT": "json", "DQ_SHUTDOWN_TIMEOUT": "0s",
	})
	want := config.Config{
		NATS:  config.NATS{URL: "tls://u:p@a:4222,tls://b", Creds: file, CA: file, Cert: file, Key: file, PushStream: "PUSHES"},
		Redis: config.Redis{URL: "redis+cluster://a:1,b:2", CA: file, Cert: file, Key: file, WaitReplicas: 2},
		Store: config.Store{Prefix: "my_app.dq-1", Buckets: 1024, Tick: 10 * time.Millisecond},
		Jobs:  config.Jobs{MaxAttempts: 5, MaxDelay: 876600 * time.Hour, MaxBody: 64 << 20, MaxInflight: 1},
		HTTP:  config.HTTP{Token: "t0ken+/=", Pprof: true},
		Log:   config.Log{Level: "debug", Format: "json"},
	}
	got, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// A script that sets an empty value meant something by it; only what may be empty takes it.
func TestLoadEmptyIsNotTheDefault(t *testing.T) {
	mayBeEmpty := map[string]bool{
		"DQ_NATS_CREDS": true, "DQ_NATS_NKEY": true, "DQ_NATS_CA": true, "DQ_NATS_CERT": true, "DQ_NATS_KEY": true,
		"DQ_REDIS_CA": true, "DQ_REDIS_CERT": true, "DQ_REDIS_KEY": true,
		"DQ_PUSH_STREAM": true, "DQ_HTTP_ADDR": true, "DQ_HTTP_TOKEN": true,
	}
	for _, name := range config.VariableNames() {
		t.Run(name, func(t *testing.T) {
			setEnv(t, map[string]string{name: ""})
			_, err := config.Load()
			if mayBeEmpty[name] != (err == nil) {
				t.Errorf("%s empty: %v", name, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), name+`="": must `) {
				t.Errorf("the error does not say what is wrong: %v", err)
			}
		})
	}
}

func TestLoadReportsEveryFaultAtOnce(t *testing.T) {
	setEnv(t, map[string]string{
		"DQ_NATS_URL":            "nats://bob:hunter2@a:99999",
		"DQ_NATS_CA":             "/nowhere/ca.pem",
		"DQ_NATS_NKEY":           "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY",
		"DQ_REDIS_URL":           "redis://:hunter2@a/db",
		"DQ_REDIS_CERT":          os.DevNull,
		"DQ_REDIS_WAIT_REPLICAS": "-1",
		"DQ_PREFIX":              "a..b",
		"DQ_BUCKETS":             "010x",
		"DQ_TICK":                "1",
		"DQ_DEFAULT_TTR":         "-1s",
		"DQ_HTTP_TOKEN":          "hunter2 hunter2",
		"DQ_PPROF":               "yes",
		"DQ_LOG_LEVEL":           "INFO",
		"DQ_HTTP_TOKNE":          "hunter2",
		"DQ_ZZZ":                 "hunter2",
		"DQ_NATS_PORT":           "tcp://10.0.0.1:4222",
	})
	want := `DQ_NATS_URL="nats://***@a:99999": must have a port from 1 to 65535
DQ_NATS_NKEY=***: must be a file that can be read: no such file or directory
DQ_NATS_CA="/nowhere/ca.pem": must be a file that can be read: no such file or directory
DQ_REDIS_URL="redis://***@a/db": must end in /<number of the database> or nothing
DQ_REDIS_KEY="": must be set, since DQ_REDIS_CERT is
DQ_REDIS_WAIT_REPLICAS="-1": must be a whole number from 0 to 100
DQ_PREFIX="a..b": must be tokens of letters, digits, - and _ with single dots between them
DQ_BUCKETS="010x": must be a whole number from 1 to 1024
DQ_TICK="1": must be a duration from 10ms to 1m, with its unit, such as 1m30s or 250ms
DQ_DEFAULT_TTR="-1s": must be a duration from 0s to 876600h, with its unit, such as 1m30s or 250ms
DQ_HTTP_TOKEN=***: must be visible ASCII characters without spaces
DQ_PPROF="yes": must be true or false
DQ_LOG_LEVEL="INFO": must be one of trace, debug, info, warn, error
DQ_HTTP_TOKNE: unknown variable; did you mean DQ_HTTP_TOKEN?
DQ_NATS_PORT: unknown variable; it looks like one that Kubernetes sets for a Service: enableServiceLinks: false in the pod's spec keeps them out
DQ_ZZZ: unknown variable`
	_, err := config.Load()
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestLoadLimits(t *testing.T) {
	file := writeFile(t, "file")
	tests := []struct {
		name, value string
		wants       string // part of the fault; empty: allowed
	}{
		{"DQ_PREFIX", strings.Repeat("p", 64), ""},
		{"DQ_PREFIX", strings.Repeat("p", 65), "at most 64 bytes"},
		{"DQ_PREFIX", "dq.", "single dots"},
		{"DQ_PREFIX", "d{q}", "letters, digits"},
		{"DQ_PREFIX", "dq.*", "letters, digits"},
		{"DQ_PREFIX", "dé", "letters, digits"},
		{"DQ_BUCKETS", "0", "from 1 to 1024"},
		{"DQ_BUCKETS", "1025", "from 1 to 1024"},
		{"DQ_BUCKETS", "0x10", "from 1 to 1024"},
		{"DQ_BUCKETS", "010", ""},
		{"DQ_TICK", "9ms", "from 10ms to 1m"},
		{"DQ_TICK", "61s", "from 10ms to 1m"},
		{"DQ_TICK", "1m", ""},
		{"DQ_DEFAULT_TTR", "87601h", "at most DQ_MAX_DELAY, which is 87600h"},
		{"DQ_MAX_DELAY", "0", "from 1ms to 876600h"},
		{"DQ_MAX_DELAY", "876601h", "from 1ms to 876600h"},
		{"DQ_MAX_DELAY", "9999999h", "from 1ms to 876600h"},
		{"DQ_MAX_DELAY", "30s", "at most DQ_MAX_DELAY, which is 30s"}, // below the default TTR
		{"DQ_MAX_BODY", "0", "from 1 to 67108864"},
		{"DQ_MAX_BODY", "67108865", "from 1 to 67108864"},
		{"DQ_MAX_BODY", "1MB", "from 1 to 67108864"},
		{"DQ_MAX_INFLIGHT", "0", "from 1 to"},
		{"DQ_DEAD_MAX", "-1", "from 0 to"},
		{"DQ_DEAD_RETENTION", "14d", "from 0s to 876600h"},
		{"DQ_SHUTDOWN_TIMEOUT", "25h", "from 0s to 24h"},
		{"DQ_PUSH_STREAM", "a.b", "stream name"},
		{"DQ_PUSH_STREAM", "a b", "stream name"},
		{"DQ_PUSH_STREAM", strings.Repeat("s", 201), "at most 200 bytes"},
		{"DQ_HTTP_ADDR", ":8080", ""},
		{"DQ_HTTP_ADDR", "[::1]:0", ""},
		{"DQ_HTTP_ADDR", "localhost:8080", ""},
		{"DQ_HTTP_ADDR", "8080", "host:port"},
		{"DQ_HTTP_ADDR", "http://localhost:8080", "host:port"},
		{"DQ_HTTP_ADDR", ":65536", "port from 0 to 65535"},
		{"DQ_HTTP_TOKEN", "tökén", "visible ASCII"},
		{"DQ_PPROF", "TRUE", ""},
		{"DQ_LOG_FORMAT", "text", "auto, json, console"},
		{"DQ_NATS_KEY", file, `DQ_NATS_CERT="": must be set, since DQ_NATS_KEY is`},
		{"DQ_REDIS_KEY", file, `DQ_REDIS_CERT="": must be set, since DQ_REDIS_KEY is`},
		{"DQ_NATS_NKEY", file, ""},
		{"DQ_NATS_CREDS", filepath.Dir(file), "is a folder"},
		{"DQ_REDIS_CA", file + "x", "no such file"},
		{"DQ_BUCKET", "8", "did you mean DQ_BUCKETS?"},
		{"DQ_tick", "1s", "did you mean DQ_TICK?"},
		{"DQ_LOGLEVEL", "info", "did you mean DQ_LOG_LEVEL?"},
		{"DQ_REDIS_SERVICE_HOST", "10.0.0.1", "enableServiceLinks"},
		{"DQ_HTTP_PORT", "8080", "unknown variable"},
	}
	for _, test := range tests {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			setEnv(t, map[string]string{test.name: test.value})
			_, err := config.Load()
			switch {
			case test.wants == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.wants != "" && err == nil:
				t.Errorf("allowed, want a fault with %q", test.wants)
			case err != nil && (!strings.Contains(err.Error(), test.wants) || strings.Contains(err.Error(), "\n")):
				t.Errorf("faults are %q, want one with %q", err, test.wants)
			}
		})
	}
}

func TestLoadCredsAndNKeyExclude(t *testing.T) {
	file := writeFile(t, "identity")
	setEnv(t, map[string]string{"DQ_NATS_CREDS": file, "DQ_NATS_NKEY": file})
	if _, err := config.Load(); err == nil || !strings.Contains(err.Error(), "DQ_NATS_CREDS") {
		t.Errorf("creds and nkey both: %v", err)
	}
}
