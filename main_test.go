package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dqbridge/dqbridge/config"
	"github.com/dqbridge/dqbridge/internal/cli"
	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// execute runs the program in this process and gives its exit code and what it printed.
func execute(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	env := cli.Env{
		Getenv: os.Getenv, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Now: time.Now, Redact: config.Redact,
	}
	code := report(run(t.Context(), args, env), &out)
	return code, out.String()
}

func TestExitCodes(t *testing.T) {
	t.Setenv("DQ_NATS_URL", "nats://user:hunter2@127.0.0.1:1")
	for _, test := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"version"}, 0, "dqbridge "},
		{[]string{"--help"}, 0, "dqbridge dev"},
		{[]string{"serve", "--help"}, 0, "DQ_REDIS_URL"},
		{[]string{"help", "push"}, 0, "--max-attempts"},
		{[]string{"psuh"}, 2, `unknown command "psuh", did you mean push?`},
		{[]string{"nonsense"}, 2, `unknown command "nonsense"`},
		{[]string{"serve", "now"}, 2, "no arguments"},
		{[]string{"version", "--loud"}, 2, "unknown flag: --loud"},
		{[]string{"push"}, 2, "push wants TOPIC [BODY]"},
		{[]string{"push", "a", "b", "c"}, 2, "push wants TOPIC [BODY]"},
		{[]string{"push", "a", "--delay", "soon"}, 2, "--delay"},
		{[]string{"push", "a"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"watch"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"dev", "there"}, 2, "unknown command"},
		{[]string{"--help"}, 0, "Look at what is stored and change it:"},
		{[]string{"purge", "--help"}, 0, "dqbridge purge mail --state dead"},
		{[]string{"completion", "bash"}, 0, "__start_dqbridge"},
		{[]string{"completion", "zsh"}, 0, "#compdef dqbridge"},
		{[]string{"completion", "fish"}, 0, "fish completion for dqbridge"},
		{[]string{"get"}, 2, "get wants ID, got 0 arguments"},
		{[]string{"finish"}, 2, "finish wants ID..., got 0 arguments"},
		{[]string{"get", "a", "b"}, 2, "get wants ID, got 2 arguments"},
		{[]string{"get", "\xff"}, 2, "is not UTF-8"},
		{[]string{"get", "a", "--body", "--json"}, 2, "[body json]"},
		{[]string{"list", "a", "--all", "--limit", "1"}, 2, "[limit all]"},
		{[]string{"get", "a"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"pop", "a"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"finish", "a"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"stats", "--watch"}, 1, "nats://***@127.0.0.1:1"},
		{[]string{"list"}, 2, "list wants a TOPIC"},
		{[]string{"purge", "a", "--state", "dead"}, 2, "--yes"},
	} {
		code, out := execute(t, test.args...)
		if code != test.code || !strings.Contains(out, test.text) || strings.Contains(out, "hunter2") {
			t.Errorf("%q: exit code %d, want %d and %q, printed:\n%s", test.args, code, test.code, test.text, out)
		}
	}
}

func TestExitCodeOfConfiguration(t *testing.T) {
	t.Setenv("DQ_TICK", "soon")
	for _, args := range [][]string{nil, {"serve"}, {"dev"}} {
		if code, out := execute(t, args...); code != 2 || !strings.Contains(out, "DQ_TICK") {
			t.Errorf("%q: exit code %d, printed:\n%s", args, code, out)
		}
	}
}

func TestDevNamesTheTakenPort(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	for _, flag := range []string{"--nats-addr", "--http-addr"} {
		args := []string{"dev", "--exit", "--dir", t.TempDir(), "--nats-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}
		code, out := execute(t, append(args, flag, server.Addr())...)
		if code != 1 || !strings.Contains(out, server.Addr()) || !strings.Contains(out, flag) {
			t.Errorf("%s: exit code %d, printed:\n%s", flag, code, out)
		}
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"auto": `"message":"hello"`, "json": `"message":"hello"`, "console": "INF hello\n"} {
		var out bytes.Buffer
		log := newLogger(config.Log{Level: zerolog.LevelInfoValue, Format: format}, &out)
		log.Debug().Msg("not this")
		log.Info().Msg("hello")
		if text := out.String(); !strings.Contains(text, want) || strings.Contains(text, "not this") {
			t.Errorf("%s: %q", format, text)
		}
	}
}

func TestWhatNext(t *testing.T) {
	t.Parallel()
	if text := whatNext("nats://127.0.0.1:4222", "dq"); strings.Contains(text, "--nats") || strings.Contains(text, "--prefix") {
		t.Errorf("names what is the default:\n%s", text)
	}
	text := whatNext("nats://127.0.0.1:4444", "x")
	for _, want := range []string{
		"nats -s nats://127.0.0.1:4444 req x.push", "dqbridge watch --nats nats://127.0.0.1:4444 --prefix x --work mail",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// TestVersionIsStamped: the version that Makefile and Dockerfile tell the linker is the one that the program tells.
func TestVersionIsStamped(t *testing.T) {
	t.Parallel()
	const flag = "-X main.stamp="
	for _, file := range []string{"Makefile", "Dockerfile"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), flag) {
			t.Errorf("%s does not build with %s (%v)", file, flag, err)
		}
	}
	out, err := exec.Command("go", "run", "-ldflags", flag+"v9.8.7", ".", "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "dqbridge v9.8.7 ") {
		t.Errorf("version says %q (%v)", out, err)
	}
}
