package config_test

import (
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/config"
)

func TestLoadURLs(t *testing.T) {
	tests := []struct {
		name, value string
		wants       string // part of the fault; empty: allowed
	}{
		{"DQ_NATS_URL", "nats://a", ""},
		{"DQ_NATS_URL", "a:4222", ""},
		{"DQ_NATS_URL", "u:p@a:4222, token@b", ""},
		{"DQ_NATS_URL", "nats://token@a:4222,tls://u:p%40ss@b.example:4222", ""},
		{"DQ_NATS_URL", "ws://a:80,wss://b:443/path", ""},
		{"DQ_NATS_URL", "nats://[::1]:4222,[fe80::1%25eth0]", ""},
		{"DQ_NATS_URL", "ws://a,nats://b", "must not mix"},
		{"DQ_NATS_URL", "http://a:4222", "must be nats://"},
		{"DQ_NATS_URL", "nats://", "must have a host"},
		{"DQ_NATS_URL", "nats://a,,b", "must have a host"},
		{"DQ_NATS_URL", "nats://a b", "must have a host"},
		{"DQ_NATS_URL", "nats://a:0", "port from 1 to 65535"},
		{"DQ_NATS_URL", "nats://a:port", "port from 1 to 65535"},
		{"DQ_NATS_URL", "nats://u:S3CRET%zz@a", "percent-encoded"},
		{"DQ_NATS_URL", "nats://u:/S3CRET@a", "percent-encoded"},
		{"DQ_NATS_URL", "nats://u:S3CRET#1@a", "percent-encoded"},
		{"DQ_NATS_URL", "nats://u:S3C,RET@a", "must have a port"},
		{"DQ_REDIS_URL", "redis://a", ""},
		{"DQ_REDIS_URL", "rediss://u:p@a:6380/15?client_name=dq", ""},
		{"DQ_REDIS_URL", "redis://[::1]:6379/", ""},
		{"DQ_REDIS_URL", "unix:///run/redis.sock?db=1", ""},
		{"DQ_REDIS_URL", "unix://u:p@/run/redis.sock", ""},
		{"DQ_REDIS_URL", "redis+cluster://u:p@a:1,b:2,[::1]:3", ""},
		{"DQ_REDIS_URL", "redis+sentinel://:p@a:1,b:2/my-master", ""},
		{"DQ_REDIS_URL", "rediss+cluster://u:p@a:1,b:2", ""},
		{"DQ_REDIS_URL", "rediss+sentinel://u:p@a:1,b:2/my-master?sentinel_username=su&sentinel_password=S3CRET", ""},
		{"DQ_REDIS_URL", "rediss+cluster://a:1/0", "no path"},
		{"DQ_REDIS_URL", "rediss+sentinel://a:1", "name of the master"},
		{"DQ_REDIS_URL", "rediss+other://a:1", "rediss+cluster://"},
		{"DQ_REDIS_URL", "redis+sentinel://u:p@a:1/m/0?sentinel_password=S3CRET", "name of the master"},
		{"DQ_REDIS_URL", "a:6379", "scheme"},
		{"DQ_REDIS_URL", "http://a:6379", "must start with redis://"},
		{"DQ_REDIS_URL", "redis://a:1,b:2", "redis+cluster://"},
		{"DQ_REDIS_URL", "redis://a/S3CRET", "number of the database"},
		{"DQ_REDIS_URL", "redis:///0", "must have a host"},
		{"DQ_REDIS_URL", "unix://run/redis.sock", "unix:///path"},
		{"DQ_REDIS_URL", "unix://", "unix:///path"},
		{"DQ_REDIS_URL", "redis+cluster://a:1,b:2/0", "no path"},
		{"DQ_REDIS_URL", "redis+cluster://a,b:2", "port for each host"},
		{"DQ_REDIS_URL", "redis+cluster://a:1,", "port for each host"},
		{"DQ_REDIS_URL", "redis+sentinel://a:1,b:2", "name of the master"},
		{"DQ_REDIS_URL", "redis+sentinel://a:1/m/0", "name of the master"},
	}
	for _, test := range tests {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			setEnv(t, map[string]string{test.name: test.value})
			_, err := config.Load()
			if test.wants == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("allowed, want a fault with %q", test.wants)
			}
			if !strings.Contains(err.Error(), test.wants) {
				t.Errorf("fault is %q, want one with %q", err, test.wants)
			}
			if strings.Contains(test.value, "@") && (strings.Contains(err.Error(), "S3C") || strings.Contains(err.Error(), "RET")) {
				t.Errorf("the fault leaks the secret: %v", err)
			}
		})
	}
}
