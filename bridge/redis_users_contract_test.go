package bridge_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/delay"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

const redisUsers = "../docs/redis-users.conf"

// rules gives the rules of the users in docs/, without "user <name>": of the bridge at Redis, and at a sentinel.
func redisRules(t *testing.T) ([]string, []string) {
	t.Helper()
	text, err := os.ReadFile(redisUsers)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^#? *user dqbridge (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 {
		t.Fatalf("%d users dqbridge in %s", len(found), redisUsers)
	}
	return strings.Fields(found[0][1]), strings.Fields(found[1][1])
}

// setUser gives a server the user of a bridge, as an operator does while it runs.
func setUser(t *testing.T, server *testenv.RedisServer, rules ...string) {
	t.Helper()
	args := []any{"acl", "setuser", "dqbridge"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// denied is what a server refused to users: nothing.
func denied(t *testing.T, server *testenv.RedisServer) {
	t.Helper()
	log, err := server.Client().Do(t.Context(), "acl", "log").Result()
	if list, ok := log.([]any); err != nil || !ok || len(list) > 0 {
		t.Errorf("Redis has refused: %v %v", log, err)
	}
}

func withUser(address, user string) string { return strings.Replace(address, "://", "://"+user+"@", 1) }

// allWork takes jobs through all that a bridge does with Redis, and the store through a check with repair.
func (r *rig) allWork(t *testing.T) {
	t.Helper()
	r.works(t)
	r.history.allowRepeats() // a kick begins the count of attempts anew
	w := r.work(t, "u")
	r.push(t, `{"id":"big","topic":"u","max_attempts":1,"body":"`+strings.Repeat("x", 10_000)+`"}`)
	w.next(t).is(t, "big", 1).settle(t, "+TERM")
	r.push(t, `{"id":"later","topic":"u","delay":99}`)
	r.push(t, `{"id":"later","topic":"u","delay":98,"on_duplicate":"replace"}`)
	for _, request := range [][2]string{
		{"admin.get", `{"id":"big"}`},
		{"admin.list", `{"state":"dead"}`},
		{"admin.list", `{"state":"ready","topic":"u"}`},
		{"admin.pause", `{"topic":"x"}`},
		{"admin.resume", `{"topic":"x"}`},
		{"admin.topics", `{}`},
		{"admin.stats", ``},
		{"admin.reschedule", `{"id":"later","delay":50}`},
		{"admin.run", `{"id":"later"}`},
		{"admin.kick", `{"id":"big"}`},
		{"admin.purge", `{"topic":"none","state":"dead"}`},
		{"admin.cancel", `{"id":"nothing"}`},
	} {
		if e := r.ask(t, r.msg(request[0], request[1])); e.Code != 200 {
			t.Errorf("%s %s: %s", request[0], request[1], e.raw)
		}
	}
	if e := r.main.live(t, "").next(); e.Error != "" || e.Redis.Persistence == "unknown" {
		t.Errorf("the dashboard meets %q, persistence is %s", e.Error, e.Redis.Persistence)
	}
	r.main.http(t, "GET", "/api/timeline?range=1d", "").is(t, 200, "")
	for range 2 {
		w.next(t).finish(t)
	}
	client, err := delay.Dial(delay.RedisOptions{URL: r.redisURL, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	store := delay.NewStore(client, delay.StoreOptions{Prefix: r.Prefix, Buckets: r.buckets, MaxDelay: r.MaxDelay})
	defer store.Close()
	if err = store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err = delay.NewChecker(store, true, func(f delay.Finding) { t.Errorf("finding %+v", f) }).Run(t.Context()); err != nil {
		t.Error(err)
	}
	r.emptied(t)
}

// TestRedisUser: a bridge does all its work as the user that docs/ gives it, and Redis refuses it nothing.
func TestRedisUser(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, redisUsers)
	r := newRig(t, func(s *setup) {
		s.Prefix, s.redis = "dq", server
		s.redisURL = "redis://dqbridge:CHANGE-ME@" + server.Addr() + "/3"
	})
	r.allWork(t)
	denied(t, server)
}

// TestRedisUserOfCluster and of Sentinel: the same, with what the client needs to find the servers.
func TestRedisUserOfCluster(t *testing.T) {
	t.Parallel()
	c := testenv.NewRedisCluster(t, 2)
	rules, _ := redisRules(t)
	for _, node := range append(c.Masters, c.Replicas...) {
		setUser(t, node, rules...)
	}
	r := newRig(t, func(s *setup) {
		s.Prefix, s.redis = "dq", c.Masters[0]
		s.redisURL = withUser(c.URL(), "dqbridge:CHANGE-ME")
	})
	r.works(t)
	for _, node := range append(c.Masters, c.Replicas...) {
		denied(t, node)
	}
}

func TestRedisUserOfSentinel(t *testing.T) {
	t.Parallel()
	group := testenv.NewRedisSentinel(t, 1)
	atRedis, atSentinel := redisRules(t)
	for _, node := range group.Nodes {
		setUser(t, node, atRedis...)
	}
	for _, one := range group.Sentinels() {
		setUser(t, one, atSentinel...)
	}
	r := newRig(t, func(s *setup) {
		s.Prefix, s.redis, s.waitReplicas = "dq", group.Nodes[0], 1
		s.redisURL = withUser(group.URL(), "dqbridge:CHANGE-ME") + "?sentinel_username=dqbridge&sentinel_password=CHANGE-ME-TOO"
	})
	r.works(t)
	for _, node := range append(group.Nodes, group.Sentinels()...) {
		denied(t, node)
	}
}

// TestRedisUserLacks: without a right that is needed there is one clear error, and the bridge is not lost.
func TestRedisUserLacks(t *testing.T) {
	t.Parallel()
	rules, _ := redisRules(t)
	for name, row := range map[string]struct {
		lacks []string
		names string
	}{
		"a command":             {[]string{"-evalsha"}, "evalsha"},
		"a command in a script": {[]string{"-time"}, "docs/redis-users.conf"},
		"the keys":              {[]string{"resetkeys", "~other:*"}, "docs/redis-users.conf"},
		"all commands":          {[]string{"-@all"}, "docs/redis-users.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t)
			setUser(t, server, append(rules[:len(rules):len(rules)], row.lacks...)...)
			r := newRig(t, func(s *setup) {
				s.idle, s.Prefix, s.redis = true, "dq", server
				s.redisURL = "redis://dqbridge:CHANGE-ME@" + server.Addr()
			})
			b := r.run(t)
			testenv.Eventually(t, patience, func() bool {
				_, _ = r.nc.Request(r.subject("push"), []byte(`{"id":"a","topic":"t","delay":99}`), time.Second)
				return b.log.has("ACL denies") || b.over()
			}, "the log says that Redis denies something")
			pause(t, time.Second)
			var told []string
			for _, level := range []string{"error", "warn"} {
				for _, line := range b.log.lines(`"level":"` + level + `"`) {
					if strings.Contains(line, "ACL denies") {
						told = append(told, line)
					}
				}
			}
			if len(told) == 0 || len(told) > 2 || !strings.Contains(told[0], row.names) || b.over() {
				t.Errorf("told %q, over: %v", told, b.over())
			}
			setUser(t, server, append([]string{"reset"}, rules...)...)
			b.ready(t, 200, 2*patience)
			r.main = b
			r.finish(t, "a")
			r.works(t)
		})
	}
}

// TestRedisPasswordRotates: both passwords hold for a while, and one replica after the other starts with the new one.
func TestRedisPasswordRotates(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, redisUsers)
	r := newRig(t, func(s *setup) {
		s.Prefix, s.redis = "dq", server
		s.redisURL = "redis://dqbridge:CHANGE-ME@" + server.Addr()
	})
	second := r.start(t)
	w := r.work(t, "t")
	setUser(t, server, ">new-one")
	for i, old := range []*replica{r.main, second} {
		id := string(rune('a' + i))
		r.push(t, `{"id":"`+id+`","topic":"t"}`)
		d := w.next(t).is(t, id, 1)
		fresh := r.start(t, func(s *setup) { s.redisURL = "redis://dqbridge:new-one@" + server.Addr() })
		if err := old.stop(t); err != nil {
			t.Error(err)
		}
		r.main = fresh
		d.finish(t)
	}
	setUser(t, server, "<CHANGE-ME")
	r.redisURL = "redis://dqbridge:new-one@" + server.Addr()
	w.leave(t)
	r.works(t)
	denied(t, server)
	if late := r.run(t, func(s *setup) { s.redisURL = "redis://dqbridge:CHANGE-ME@" + server.Addr() }); late != nil {
		testenv.Eventually(t, patience, func() bool { return late.log.has("refuses the user or the password") }, "the old password is refused")
	}
}
