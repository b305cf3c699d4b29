package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/dqbridge/dqbridge/internal/client"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

// site is a Redis with the configuration of docs/operations.md, and a bridge on it.
type site struct {
	t         *testing.T
	ctx       context.Context // has an end, as requests want
	dir, port string
	nats      *testenv.NATSServer
	client    client.Client
	term      *terminal
	redis     *testenv.Process
	bridge    *testenv.Process
}

const siteWithin = time.Minute

func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*siteWithin)
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, dir: t.TempDir(), port: testenv.FreePort(t), nats: testenv.NATS(t)}
	s.client = client.New(s.nats.Connect(), "dq")
	for _, folder := range []string{"data", "backup"} {
		if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(s.dir, "data")
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nappendonly yes\nsave \"\"\nmaxmemory-policy noeviction\n", s.port, data)
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s.term = newTerminal(t, nil, "/var/lib/redis", data, "/backup", filepath.Join(s.dir, "backup"),
		"/etc/redis/redis.conf", filepath.Join(s.dir, "redis.conf"),
		"redis.example:6379", "127.0.0.1:"+s.port, "-h redis.example", "-h 127.0.0.1 -p "+s.port)
	return s
}

// startRedis starts the server with a command of the page, and waits until it answers.
func (s *site) startRedis(typed string) {
	s.t.Helper()
	s.redis = testenv.StartBinary(s.t, "/bin/sh", nil, "-c", "exec "+s.term.page.Replace(typed))
	to := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.port})
	defer to.Close()
	s.redis.Ready(siteWithin, func() bool { return to.Ping(s.ctx).Err() == nil }, "redis answers")
}

func (s *site) startBridge() {
	s.t.Helper()
	s.bridge = testenv.Start(s.t, []string{
		"DQ_NATS_URL=" + s.nats.URL(), "DQ_REDIS_URL=redis://127.0.0.1:" + s.port + "/0", "DQ_HTTP_ADDR=", "DQ_SHUTDOWN_TIMEOUT=0s",
	})
	s.bridge.WaitFor("bridge serves", siteWithin)
}

func (s *site) stop(p *testenv.Process) {
	s.t.Helper()
	p.Term()
	if code := p.Wait(siteWithin); code != 0 {
		s.t.Errorf("ends with exit code %d", code)
	}
}

// push stores n jobs and gives their ids.
func (s *site) push(n int, job client.Job) []string {
	s.t.Helper()
	var ids []string
	name := job.ID
	for i := range n {
		job.ID = fmt.Sprintf("%s-%02d", name, i)
		if _, _, err := s.client.Push(s.ctx, job); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	return ids
}

// pop takes n jobs of a topic.
func (s *site) pop(n int, topic string) []*nats.Msg {
	s.t.Helper()
	var taken []*nats.Msg
	for range n {
		msg, _, err := s.client.Pop(s.ctx, topic, "10s")
		if err != nil || msg == nil {
			s.t.Fatalf("pop %s: %v", topic, err)
		}
		taken = append(taken, msg)
	}
	return taken
}

// worked takes what comes on a topic and finishes it, until n jobs are done, and gives their ids.
func (s *site) worked(n int, topic string) []string {
	s.t.Helper()
	var ids []string
	for _, msg := range s.pop(n, topic) {
		ids = append(ids, msg.Header.Get("Dq-Id"))
		if _, err := s.client.Ack(s.ctx, msg); err != nil {
			s.t.Fatal(err)
		}
	}
	slices.Sort(ids)
	return ids
}

// restore types what the section says, in its order. The store is then on a Redis that runs with its append-only file again.
func (s *site) restore(commands []string) {
	s.t.Helper()
	for _, typed := range commands {
		switch {
		case strings.HasPrefix(typed, "redis-server "):
			s.startRedis(typed)
		case strings.HasSuffix(typed, " INFO persistence"):
			written := regexp.MustCompile(`(?s)aof_enabled:1.*aof_rewrite_in_progress:0\s.*aof_rewrite_scheduled:0\s.*aof_last_bgrewrite_status:ok`)
			s.redis.Ready(siteWithin, func() bool { return written.MatchString(s.typed(typed)) }, "the append-only file is written")
		case strings.HasSuffix(typed, " check"):
			s.term.run(typed, `(?m)^\d+ jobs, 0 findings, 0 left$`)
		default:
			s.term.run(typed, "")
		}
	}
}

// typed is what a command prints.
func (s *site) typed(typed string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.ctx, "/bin/sh", "-c", s.term.page.Replace(typed)).Output()
	if err != nil {
		s.t.Fatalf("%s: %v", typed, err)
	}
	return string(out)
}

// A copy that is put back by the commands of docs/operations.md holds each job as it was then: what was finished since comes
// again, what was pushed since is gone.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "docs/operations.md"), "\n## Backup and restore\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := typed(section)
	s := newSite(t)
	s.startRedis("redis-server /etc/redis/redis.conf")
	s.startBridge()

	delayed := s.push(30, client.Job{ID: "delayed", Topic: "mail", Delay: "1h"})
	ready := s.push(30, client.Job{ID: "ready", Topic: "mail"})
	inFlight := s.push(10, client.Job{ID: "flight", Topic: "sms", TTR: "5s"})
	dead := s.push(5, client.Job{ID: "dead", Topic: "old", MaxAttempts: "1"})
	s.pop(10, "sms")
	if _, _, err := s.client.Settle(s.ctx, "bury", settlings(dead)); err != nil {
		t.Fatal(err)
	}
	s.restore(commands[:1]) // the copy

	if done := s.worked(10, "mail"); len(done) != 10 {
		t.Fatalf("done: %v", done)
	}
	s.push(10, client.Job{ID: "since", Topic: "mail"})
	s.stop(s.bridge)
	s.stop(s.redis)

	s.restore(commands[1:])
	s.stop(s.redis)
	s.startRedis("redis-server /etc/redis/redis.conf")
	s.startBridge()
	for _, id := range delayed {
		if _, err := s.client.Admin(s.ctx, "run", map[string]string{"id": id}, &client.Changed{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(slices.Concat(delayed, ready), s.worked(60, "mail")); diff != "" {
		t.Errorf("mail (- in the copy, + delivered):\n%s", diff)
	}
	if diff := cmp.Diff(inFlight, s.worked(10, "sms")); diff != "" {
		t.Errorf("sms (- in flight at the copy, + delivered again):\n%s", diff)
	}
	var stats client.Stats
	if _, err := s.client.Admin(s.ctx, "stats", struct{}{}, &stats); err != nil {
		t.Fatal(err)
	}
	if stats.Delayed+stats.Ready+stats.InFlight != 0 || stats.Dead != int64(len(dead)) {
		t.Errorf("left: %+v", stats)
	}
	s.restore(commands[len(commands)-1:]) // the check
}

func settlings(ids []string) []client.Settling {
	var all []client.Settling
	for _, id := range ids {
		all = append(all, client.Settling{ID: id})
	}
	return all
}
