package whole_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// planted is part of every secret of these tests.
const planted = "hunter2"

// TestSecretsStayInside: a bridge that has a secret in each variable that takes one tells none: in its help, its log at
// the lowest level, its pages, answers that refuse a token, and the dump of a crash.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	if err := redis.Client().Do(t.Context(), "acl", "setuser", "user", "on", ">redis-"+planted, "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	nats := testenv.NATS(t, func(o *server.Options) { o.Username, o.Password = "user", "nats-"+planted })
	env := []string{
		"DQ_NATS_URL=nats://user:nats-" + planted + "@" + nats.Addr(),
		"DQ_REDIS_URL=redis://user:redis-" + planted + "@" + redis.Addr() + "/0",
		"DQ_HTTP_TOKEN=token-" + planted, "DQ_HTTP_ADDR=127.0.0.1:0", "DQ_PPROF=true",
		"DQ_LOG_LEVEL=trace", "DQ_LOG_FORMAT=json", "DQ_PREFIX=" + testenv.Prefix(t),
	}
	for _, args := range []string{"serve --help", "--help", "push --help", "stats --help", "check --help", "dev --help", "serve --nonsense"} {
		p := testenv.Start(t, env, strings.Fields(args)...)
		p.Wait(startWithin)
		if strings.Contains(output(p), planted) {
			t.Errorf("%s shows a secret:\n%s", args, output(p))
		}
	}
	p := testenv.Start(t, env)
	p.WaitFor("bridge serves", startWithin)
	for _, page := range []struct{ path, token string }{
		{"/readyz", ""},
		{"/healthz", ""},
		{"/metrics", ""},
		{"/metrics", "token-" + planted + "x"},
		{"/metrics", "token-" + planted},
		{"/debug/pprof/cmdline", "token-" + planted},
		{"/debug/pprof/goroutine?debug=2", "token-" + planted},
		{"/nothing", "token-" + planted},
	} {
		if text := httpPage(t, p, page.path, page.token); strings.Contains(text, planted) {
			t.Errorf("%s shows a secret:\n%.2000s", page.path, text)
		}
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGQUIT); err != nil { // Go prints all stacks, as in a crash
		t.Fatal(err)
	}
	p.Wait(startWithin)
	if !strings.Contains(p.Stderr(), "goroutine ") {
		t.Error("no stacks are printed")
	}
	if strings.Contains(output(p), planted) {
		t.Errorf("a secret is shown:\n%s", output(p))
	}
}

func httpPage(t *testing.T, p *testenv.Process, path, token string) string {
	t.Helper()
	var entry struct{ Addr string }
	if err := json.Unmarshal([]byte(p.WaitFor("HTTP is served", startWithin)), &entry); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+entry.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startWithin}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFilesThatHoldSomethingElse: a file of the wrong kind is named by its variable, and what is in it is not shown.
func TestFilesThatHoldSomethingElse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "wrong.file")
	if err := os.WriteFile(file, []byte("-----BEGIN "+planted+"-----\nSUA"+planted+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := testenv.NewAuthority(t)
	pair := ca.Issue("bridge", time.Hour)
	nats := testenv.NATS(t)
	for name, row := range map[string]struct {
		env   []string
		names string
	}{
		"NKey":           {[]string{"DQ_NATS_NKEY=" + file}, "DQ_NATS_NKEY"},
		"credentials":    {[]string{"DQ_NATS_CREDS=" + file}, "DQ_NATS_CREDS"},
		"CA of NATS":     {[]string{"DQ_NATS_CA=" + file}, "DQ_NATS_CA"},
		"pair of NATS":   {[]string{"DQ_NATS_CERT=" + file, "DQ_NATS_KEY=" + file}, "DQ_NATS_CERT"},
		"swapped, NATS":  {[]string{"DQ_NATS_CERT=" + pair.Key, "DQ_NATS_KEY=" + pair.Cert}, "DQ_NATS_CERT"},
		"key of another": {[]string{"DQ_NATS_CERT=" + pair.Cert, "DQ_NATS_KEY=" + ca.Issue("bridge", time.Hour).Key}, "DQ_NATS_CERT"},
		"CA of Redis":    {[]string{"DQ_REDIS_CA=" + file}, "DQ_REDIS_CA"},
		"pair of Redis":  {[]string{"DQ_REDIS_CERT=" + file, "DQ_REDIS_KEY=" + file}, "DQ_REDIS_CERT"},
		"no such file":   {[]string{"DQ_REDIS_CA=" + file + ".not"}, "DQ_REDIS_CA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{
				"DQ_NATS_URL=" + nats.URL(), "DQ_REDIS_URL=" + testenv.SharedRedis(t).URL(), "DQ_HTTP_ADDR=", "DQ_PREFIX=" + testenv.Prefix(t),
			}, row.env...)
			p := testenv.Start(t, env)
			if code := p.Wait(startWithin); code != 1 && code != 2 {
				t.Errorf("exit code %d", code)
			}
			if last := lastLine(p.Stderr()); !strings.Contains(last, row.names) {
				t.Errorf("the last line does not name %s: %s", row.names, last)
			}
			if strings.Contains(output(p), planted) {
				t.Errorf("a secret is shown:\n%s", output(p))
			}
		})
	}
}
