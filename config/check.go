package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
	"unicode"
)

const (
	maxPrefix     = 64  // bytes: it is in every subject and key
	maxStreamName = 200 // bytes: JetStream takes 255, but ids of jobs are made of it
	maxBuckets    = 1024
	maxBodyLimit  = 64 << 20 // bytes, the largest max_payload of a NATS server
	maxWait       = 100      // Redis replicas
	maxCount      = 1_000_000_000

	// century is the longest span of the store; time.Duration ends at 292 years.
	century = 876_600 * time.Hour
)

// check holds every value against what is allowed. What did not parse is zero here, and found says so.
func (c *Config) check(found *faults) {
	c.NATS.check(found)
	c.Redis.check(found)

	found.check("DQ_PREFIX", checkPrefix(c.Prefix))
	found.number("DQ_BUCKETS", c.Buckets, 1, maxBuckets)
	found.duration("DQ_TICK", c.Tick, 10*time.Millisecond, time.Minute)

	c.Jobs.check(found)

	found.duration("DQ_DEAD_RETENTION", c.Dead.Retention, 0, century)
	found.number("DQ_DEAD_MAX", c.Dead.Max, 0, maxCount)

	found.check("DQ_HTTP_ADDR", checkListenAddr(c.HTTP.Addr))
	found.check("DQ_HTTP_TOKEN", checkToken(c.HTTP.Token))
	found.boolean("DQ_PPROF")

	found.oneOf("DQ_LOG_LEVEL", c.Log.Level, "trace", "debug", "info", "warn", "error")
	found.oneOf("DQ_LOG_FORMAT", c.Log.Format, "auto", "json", "console")

	found.duration("DQ_SHUTDOWN_TIMEOUT", c.ShutdownTimeout, 0, 24*time.Hour)
}

func (n NATS) check(found *faults) {
	found.check("DQ_NATS_URL", checkNATSURL(n.URL))
	found.check("DQ_NATS_CREDS", checkFile(n.Creds))
	found.check("DQ_NATS_NKEY", checkFile(n.NKey))
	found.check("DQ_NATS_CA", checkFile(n.CA))
	found.check("DQ_NATS_CERT", checkFile(n.Cert))
	found.check("DQ_NATS_KEY", checkFile(n.Key))
	if n.Creds != "" && n.NKey != "" {
		found.add("DQ_NATS_NKEY", "must not be set beside DQ_NATS_CREDS: one of them is the identity")
	}
	if n.Cert != "" && n.Key == "" {
		found.add("DQ_NATS_KEY", "must be set, since DQ_NATS_CERT is")
	}
	if n.Key != "" && n.Cert == "" {
		found.add("DQ_NATS_CERT", "must be set, since DQ_NATS_KEY is")
	}
	found.check("DQ_PUSH_STREAM", checkStreamName(n.PushStream))
}

func (r Redis) check(found *faults) {
	found.check("DQ_REDIS_URL", checkRedisURL(r.URL))
	found.check("DQ_REDIS_CA", checkFile(r.CA))
	found.check("DQ_REDIS_CERT", checkFile(r.Cert))
	found.check("DQ_REDIS_KEY", checkFile(r.Key))
	if r.Cert != "" && r.Key == "" {
		found.add("DQ_REDIS_KEY", "must be set, since DQ_REDIS_CERT is")
	}
	if r.Key != "" && r.Cert == "" {
		found.add("DQ_REDIS_CERT", "must be set, since DQ_REDIS_KEY is")
	}
	found.number("DQ_REDIS_WAIT_REPLICAS", r.WaitReplicas, 0, maxWait)
}

func (j Jobs) check(found *faults) {
	found.duration("DQ_MAX_DELAY", j.MaxDelay, time.Millisecond, century)
	found.duration("DQ_DEFAULT_TTR", j.DefaultTTR, 0, century)
	if _, bad := found.reasons["DQ_MAX_DELAY"]; !bad && j.DefaultTTR > j.MaxDelay {
		found.add("DQ_DEFAULT_TTR", "must be at most DQ_MAX_DELAY, which is "+short(j.MaxDelay))
	}
	found.number("DQ_MAX_ATTEMPTS", j.MaxAttempts, 0, maxCount)
	found.number("DQ_MAX_BODY", j.MaxBody, 1, maxBodyLimit)
	found.number("DQ_MAX_INFLIGHT", j.MaxInflight, 1, math.MaxInt32)
}

// checkPrefix keeps wildcards, white space and empty tokens out of subjects, and braces (a cluster's hash tag) out of keys.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("must have at most %d bytes", maxPrefix)
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || strings.ContainsFunc(token, notPrefixRune) {
			return errors.New("must be tokens of letters, digits, - and _ with single dots between them")
		}
	}
	return nil
}

func notPrefixRune(r rune) bool {
	return !isLetterOrDigit(r) && r != '-' && r != '_'
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func checkStreamName(name string) error {
	if len(name) > maxStreamName {
		return fmt.Errorf("must have at most %d bytes", maxStreamName)
	}
	if strings.ContainsAny(name, `.*>/\`) || strings.ContainsFunc(name, notVisible) {
		return errors.New(`must be a stream name: no white space, no dot, *, >, / or \`)
	}
	return nil
}

func notVisible(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
}

// checkToken wants what a client can send in a header: visible ASCII.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be visible ASCII characters without spaces")
	}
	return nil
}

// checkFile opens the file, since only that tells whether this user may read it. A pipe is left alone: reading is once.
func checkFile(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(err)
	}
	if info.IsDir() {
		return errors.New("must be a file that can be read, and is a folder")
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return unreadable(err)
	}
	return file.Close()
}

// unreadable drops the path, which faults.join shows where it is fit to be shown.
func unreadable(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("must be a file that can be read: %w", err)
}
