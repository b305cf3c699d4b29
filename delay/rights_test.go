package delay

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRedisRights: the user in docs/ may run what the scripts and the client use, and no other command.
func TestRedisRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/redis-users.conf")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^user dqbridge (.*)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("no user dqbridge")
	}
	var may []string
	for rule := range strings.FieldsSeq(line[1]) {
		if command, allows := strings.CutPrefix(rule, "+"); allows {
			may = append(may, command)
		}
	}
	uses := []string{
		// By the client: connections, the scripts themselves, what is read without them, the check, the looks, and Cluster.
		"ping", "select", "eval", "evalsha", "exists", "hget", "hgetall", "hkeys", "hmget", "hscan", "hsetnx", "hdel", "llen", "lrange",
		"time", "zcount", "zmscore", "zrange", "zrangebyscore", "zscore", "zscan", "scan", "multi", "exec", "info", "wait",
		"cluster|slots", "asking", "command",
	}
	scripts, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, file := range scripts {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Commands are constants, also where they are handed on: 'RPUSH' and 'LPUSH'.
		for _, match := range regexp.MustCompile(`'([A-Z]{4,})'`).FindAllStringSubmatch(string(source), -1) {
			uses = append(uses, strings.ToLower(match[1]))
		}
	}
	uses = slices.DeleteFunc(uses, func(word string) bool { return word == "limit" || word == "withscores" }) // arguments
	slices.Sort(uses)
	uses = slices.Compact(uses)
	slices.Sort(may)
	if !slices.Equal(may, uses) {
		t.Errorf("docs/redis-users.conf allows\n%v, used are\n%v", may, uses)
	}
}
