package whole_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// output is all that a process printed.
func output(p *testenv.Process) string { return p.Stdout() + p.Stderr() }

func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env   []string
		named []string
	}{
		"several wrong ones, all told": {
			[]string{"DQ_TICK=soon", "DQ_BUCKETS=0", "DQ_PREFIX=a..b", "DQ_NATS_URL=http://x", "DQ_SHUTDOWN_TIMEOUT=25", "DQ_LOG_LEVEL=loud"},
			[]string{"DQ_TICK", `"soon"`, "DQ_BUCKETS", "DQ_PREFIX", `"a..b"`, "DQ_NATS_URL", "DQ_SHUTDOWN_TIMEOUT", "DQ_LOG_LEVEL", `"loud"`},
		},
		"unknown":                     {[]string{"DQ_TIKC=1s"}, []string{"DQ_TIKC", "DQ_TICK"}},
		"unknown and wrong":           {[]string{"DQ_NOTHING=1", "DQ_MAX_BODY=-1"}, []string{"DQ_NOTHING", "DQ_MAX_BODY"}},
		"secrets in malformed URLs":   {[]string{"DQ_NATS_URL=nats://u:hunter2@:x:y", "DQ_REDIS_URL=redis://:hunter2@h:port/x"}, []string{"DQ_NATS_URL", "DQ_REDIS_URL"}},
		"secrets in unknown ones":     {[]string{"DQ_NATS_ULR=nats://u:hunter2@127.0.0.1"}, []string{"DQ_NATS_ULR"}},
		"a secret in place of a file": {[]string{"DQ_NATS_NKEY=SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYhunter2"}, []string{"DQ_NATS_NKEY"}},
		"a token with white space":    {[]string{"DQ_HTTP_TOKEN=hunter2 hunter2"}, []string{"DQ_HTTP_TOKEN"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{nil, {"serve"}} {
				p := testenv.Start(t, test.env, args...)
				if code := p.Wait(startWithin); code != 2 {
					t.Errorf("%q: exit code %d, should be 2", args, code)
				}
				for _, word := range test.named {
					if !strings.Contains(p.Stderr(), word) {
						t.Errorf("%q: stderr does not name %s:\n%s", args, word, p.Stderr())
					}
				}
				if strings.Contains(output(p), "hunter2") {
					t.Errorf("%q: the secret is shown:\n%s", args, output(p))
				}
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"serve now", "nonsense", "--no-such-flag", "serve --no-such-flag", "push", "version 2"} {
		p := testenv.Start(t, nil, strings.Fields(args)...)
		if code := p.Wait(startWithin); code != 2 || p.Stderr() == "" {
			t.Errorf("%s: exit code %d, should be 2; stderr %q", args, code, p.Stderr())
		}
	}
}

// A bridge that runs, and one that cannot log in, must not tell what is in its URLs.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	if err := redis.Client().Do(t.Context(), "acl", "setuser", "user", "on", ">redis-hunter2", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	nats := testenv.NATS(t, func(o *server.Options) { o.Username, o.Password = "user", "nats-hunter2" })
	natsURL := func(password string) string { return "DQ_NATS_URL=nats://user:" + password + "@" + nats.Addr() }
	redisURL := func(password string) string {
		return "DQ_REDIS_URL=redis://user:" + password + "@" + redis.Addr() + "/0"
	}
	for name, test := range map[string]struct {
		env    []string
		serves bool
	}{
		"right":                      {[]string{natsURL("nats-hunter2"), redisURL("redis-hunter2")}, true},
		"wrong at NATS":              {[]string{natsURL("wrong-hunter2"), redisURL("redis-hunter2")}, false},
		"wrong at Redis":             {[]string{natsURL("nats-hunter2"), redisURL("wrong-hunter2")}, false},
		"nobody there":               {[]string{"DQ_NATS_URL=nats://hunter2@127.0.0.1:1", "DQ_REDIS_URL=redis://u:hunter2@127.0.0.1:1"}, false},
		"several, and no such hosts": {[]string{"DQ_NATS_URL=nats://u:hunter2@nats.invalid,nats://hunter2@b.invalid:4222", "DQ_REDIS_URL=rediss://u:hunter2@redis.invalid:6379/1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{"DQ_HTTP_ADDR=", "DQ_LOG_LEVEL=trace", "DQ_PREFIX=" + testenv.Prefix(t)}, test.env...)
			p := testenv.Start(t, env)
			if test.serves {
				p.WaitFor("bridge serves", startWithin)
			} else {
				p.WaitFor("is away", startWithin)
				testenv.Eventually(t, 10*time.Second, func() bool { return strings.Count(p.Stderr(), "tried again") > 4 }, "some tries")
			}
			p.Term()
			if code := p.Wait(10 * time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if strings.Contains(output(p), "hunter2") {
				t.Errorf("the secret is shown:\n%s", output(p))
			}
			checkOutput(t, p)
		})
	}
}

func TestOtherNumberOfBuckets(t *testing.T) {
	t.Parallel()
	r := newRig(t, "no")
	r.end(r.serving("DQ_BUCKETS=4"))
	p := r.replica("DQ_BUCKETS=16")
	if code := p.Wait(startWithin); code != 1 {
		t.Errorf("exit code %d, should be 1", code)
	}
	last := lastLine(p.Stderr())
	if !strings.Contains(last, "16") || !strings.Contains(last, " 4 ") {
		t.Errorf("the last line does not name both numbers:\n%s", last)
	}
	r.end(r.serving("DQ_BUCKETS=4"))
}

// Two stores under one prefix on one NATS would split pushes between them.
func TestOtherStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, "no")
	first := r.serving()
	p := r.replica("DQ_REDIS_URL=" + testenv.SharedRedis(t).URL())
	if code := p.Wait(startWithin); code != 1 {
		t.Errorf("exit code %d, should be 1", code)
	}
	store := r.redis.Client().HGet(t.Context(), r.prefix+":meta", "store").Val()
	other := testenv.SharedRedis(t).Client().HGet(t.Context(), r.prefix+":meta", "store").Val()
	if last := lastLine(p.Stderr()); store == "" || !strings.Contains(last, store) || !strings.Contains(last, other) {
		t.Errorf("the last line does not name both stores, %s and %s:\n%s", store, other, last)
	}
	r.end(first)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
