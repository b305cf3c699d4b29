package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// How a test treats a command of a page.
const (
	ends   = iota // it is run and ends; its output matches
	stays         // it is run until the next one that stays; its output matches
	target        // make knows it: to run it takes long, and most of them are run by CI
	tests         // go test finds the tests and flags it names
	beside        // another test runs it, or it needs what is not here; the reason stands in want
)

// step is a command that a page tells its reader to type.
type step struct {
	typed string
	how   int
	want  string // pattern, or for beside the reason
}

// pages are the commands of all pages, as they stand there. A page that has others fails.
func pages() map[string][]step {
	return map[string][]step{
		"README.md": {
			{"make run", target, ""},
			{"make test", target, ""},
			{"DQ_NATS_URL=nats://nats.example:4222 DQ_REDIS_URL=redis://redis.example:6379/0 bin/dqbridge", stays, "bridge starts"},
			{"bin/dqbridge watch --work mail", stays, `mail .* ms late +{"to": "ann@example.org"}`},
			{`bin/dqbridge push mail '{"to": "ann@example.org"}' --delay 5s`, ends, `^pushed \S+, due \S+ \(in 5s\)`},
			{"nats reply dq.ready.mail +ACK", stays, `"delay":5,"ttr":60,"body":{"to": "ann@example.org"},"attempt":1,`},
			{`nats req dq.push '{"topic": "mail", "delay": 5, "body": {"to": "ann@example.org"}}'`, ends, `{"code":200,"message":"",`},
			{
				`curl --json '{"id": "m1", "topic": "sms", "ttr": 60, "body": {"to": "ann@example.org"}}' http://127.0.0.1:8080/push`,
				ends, `{"code":200,"message":"","data":{"id":"m1",`,
			},
			{`curl -i 'http://127.0.0.1:8080/pop?topic=sms&wait=5s'`, ends, `(?s)HTTP/1.1 200 OK.*Dq-Id: m1.*{"to": "ann@example.org"}`},
			{`curl -X POST 'http://127.0.0.1:8080/finish?job_id=m1'`, ends, `"data":{"finished":1}`},
		},
		"docs/performance.md": {
			{`make compare ARGS='-work push -rounds 9 -jobs 80000'`, target, ""},
			{`make compare ARGS='-work batches,drain -rounds 3'`, target, ""},
			{`make compare ARGS='-work steady -workers 4 -rounds 4 -seconds 8'`, target, ""},
			{`make compare ARGS='-work lateness,memory -workers 4 -rounds 3 -seconds 8'`, target, ""},
			{`make compare ARGS='-work lateness10k -peers dqbridge,JetStream,beanstalkd -workers 1 -rounds 3 -seconds 5'`, target, ""},
			{`make compare ARGS='-peers dqbridge -aa -work push,lateness -workers 1 -rounds 2 -seconds 3 -pending 1000000'`, target, ""},
			{`make compare ARGS='-peers dqbridge -bridges 1,2,4 -work steady,lateness -workers 2 -rounds 5 -seconds 5'`, target, ""},
			{`go test ./internal/whole -v -run 'OthersAreInTime|Overdue' -backlog 1000000 -timeout 15m`, tests, ""},
			{`make soak SOAK=10m`, target, ""},
		},
		"docs/operations.md": {
			{"redis-cli -h redis.example --rdb /backup/dqbridge.rdb", beside, "TestBackupIsRestored runs it, and those that follow"},
			{"mv /var/lib/redis/appendonlydir /var/lib/redis/appendonlydir.old", beside, "the same"},
			{"cp /backup/dqbridge.rdb /var/lib/redis/dump.rdb", beside, "the same"},
			{"redis-server /etc/redis/redis.conf --appendonly no", beside, "the same"},
			{"redis-cli -h redis.example CONFIG SET appendonly yes", beside, "the same"},
			{"redis-cli -h redis.example INFO persistence", beside, "the same"},
			{"DQ_REDIS_URL=redis://redis.example:6379/0 bin/dqbridge check", beside, "the same"},
		},
		"examples/README.md": {
			{
				"kubectl create secret generic dqbridge --from-literal=DQ_NATS_URL=nats://bridge:change-me@nats:4222 " +
					"--from-literal=DQ_REDIS_URL=redis://dqbridge:change-me@redis:6379/0 --from-literal=DQ_HTTP_TOKEN=change-me",
				beside, "needs a cluster; TestKubernetesSettings takes its values",
			},
			{"kubectl apply -k examples/kubernetes", beside, "needs a cluster; internal/manifests reads the files"},
		},
	}
}

// typed are the commands in a page's code blocks. What is not one is an answer that is shown: it begins with a brace, a
// blank or a time.
func typed(page string) []string {
	var found []string
	inFence, fenced := false, false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		line = strings.TrimRight(line, "\n")
		if language, fence := strings.CutPrefix(line, "```"); fence {
			inFence, fenced = !inFence, language == "sh" // other fences hold pictures and files
			continue
		}
		block, indented := strings.CutPrefix(line, "    ")
		if inFence && !fenced || !inFence && !indented {
			continue
		}
		if inFence {
			block = line
		}
		if regexp.MustCompile(`^[{ \d]`).MatchString(block) || block == "" {
			continue
		}
		block, _, _ = strings.Cut(block, "  #")
		found = append(found, strings.Join(strings.Fields(block), " "))
	}
	return found
}

// documents are all pages with their texts.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			texts[filepath.ToSlash(file)] = read(t, file)
		}
	}
	return texts
}

// The pages have the commands that are tried here, in this order, and no others.
func TestPagesHaveTheseCommands(t *testing.T) {
	t.Parallel()
	texts, known := documents(t), pages()
	for page, text := range texts {
		var want []string
		for _, s := range known[page] {
			want = append(want, s.typed)
		}
		if diff := cmp.Diff(want, typed(text)); diff != "" {
			t.Errorf("%s (- tried here, + on the page):\n%s", page, diff)
		}
	}
	for page := range known {
		if texts[page] == "" {
			t.Errorf("there is no %s", page)
		}
	}
}

// Each command does what its page says, in the order of the page, on a `dqbridge dev` whose addresses take the place of
// those on the page.
func TestCommandsOfThePages(t *testing.T) {
	t.Parallel()
	for page, steps := range pages() {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			var term *terminal
			for _, s := range steps {
				if term == nil && (s.how == ends || s.how == stays) {
					term = devTerminal(t)
				}
				s.try(t, term)
			}
			if term != nil {
				term.interrupt()
			}
		})
	}
}

func devTerminal(t *testing.T) *terminal {
	t.Helper()
	dev := testenv.StartDev(t)
	redis := "unix://" + filepath.Join(dev.Dir, "redis.sock")
	return newTerminal(t,
		[]string{"NATS_URL=" + dev.NATSURL, "DQ_NATS_URL=" + dev.NATSURL, "DQ_REDIS_URL=" + redis, "DQ_HTTP_ADDR=127.0.0.1:0"},
		"127.0.0.1:8080", dev.HTTPAddr, "nats://nats.example:4222", dev.NATSURL, "redis://redis.example:6379/0", redis)
}

func (s step) try(t *testing.T, term *terminal) {
	t.Helper()
	switch s.how {
	case ends:
		term.run(s.typed, s.want)
	case stays:
		term.start(s.typed, s.want)
	case target:
		isTarget(t, s.typed)
	case tests:
		findsTests(t, s.typed)
	case beside:
		if s.want == "" {
			t.Errorf("%s: why is it not run?", s.typed)
		}
	}
}

// isTarget looks up the target and the variables of a make command in the Makefile.
func isTarget(t *testing.T, typed string) {
	t.Helper()
	makefile := read(t, "Makefile")
	words := strings.Fields(typed)
	if !regexp.MustCompile(`(?m)^` + words[1] + `:`).MatchString(makefile) {
		t.Errorf("%s: no such target", typed)
	}
	for _, name := range matches(`\b([A-Z]+)=`, typed) {
		if !strings.Contains(makefile, "$("+name+")") {
			t.Errorf("%s: no variable %s", typed, name)
		}
	}
}

// findsTests looks up what a go test command names in the sources of its package.
func findsTests(t *testing.T, typed string) {
	t.Helper()
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(typed, -1)
	files, err := filepath.Glob(filepath.Join(words[2], "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no tests in %s: %v", typed, words[2], err)
	}
	var sources strings.Builder
	for _, file := range files {
		sources.WriteString(read(t, file))
	}
	for i, word := range words[3:] {
		name, isFlag := strings.CutPrefix(word, "-")
		switch {
		case !isFlag || slices.Contains([]string{"v", "timeout", "count"}, name):
		case name == "run":
			for one := range strings.SplitSeq(strings.Trim(words[3+i+1], "'"), "|") {
				if !regexp.MustCompile(`(?m)^func Test\w*` + one).MatchString(sources.String()) {
					t.Errorf("%s: no test %s", typed, one)
				}
			}
		case !strings.Contains(sources.String(), `"`+name+`"`):
			t.Errorf("%s: no flag %s", typed, name)
		}
	}
}

// What a page names within its text is there, too: targets of make, and commands of dqbridge.
func TestPagesNameWhatThereIs(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for page, text := range documents(t) {
		for _, name := range matches("`make ([a-z]+)", text) {
			if !regexp.MustCompile(`(?m)^` + name + `:`).MatchString(makefile) {
				t.Errorf("%s: there is no make %s", page, name)
			}
		}
		commands := make(map[string]bool)
		for _, name := range matches("`(?:bin/)?dqbridge ([a-z]+)", text) {
			commands[name] = true
		}
		for name := range maps.Keys(commands) {
			if code, out := execute(t, name, "--help"); code != exitFine {
				t.Errorf("%s: dqbridge %s: %s", page, name, out)
			}
		}
		for _, link := range matches(`\]\(([^):]+)\)`, text) {
			file, anchor, _ := strings.Cut(link, "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: links to what is not there: %v", page, err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: links to %s, which has no such heading", page, link)
			}
		}
	}
}

// anchors are what a page's headings are called in links.
func anchors(page string) []string {
	var found []string
	for _, heading := range matches(`(?m)^#+ (.+)$`, page) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
		found = append(found, strings.ReplaceAll(kept, " ", "-"))
	}
	return found
}
