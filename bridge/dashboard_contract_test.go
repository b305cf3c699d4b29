package bridge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

const httpToken = "s3cret"

// withToken gives a bridge a token; bearer is the header that has it.
func withToken(s *setup) { s.HTTPToken = httpToken }

const bearer = "Authorization: Bearer " + httpToken

// TestPage: the page and its files are served to all, also where there is a token, and let the browser do nothing else.
func TestPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	for name, row := range map[string]struct {
		method, path string
		status       int
	}{
		"page":           {"GET", "/", 200},
		"page, HEAD":     {"HEAD", "/", 200},
		"page, POST":     {"POST", "/", 405},
		"a file":         {"GET", "/ui/index.html", 200},
		"no such file":   {"GET", "/ui/nothing.js", 404},
		"out of it":      {"GET", "/ui/../http.go", 401},
		"out of it, too": {"GET", "/ui/%2e%2e/http.go", 404},
		"the folder":     {"GET", "/ui/", 404},
		"anything else":  {"GET", "/index.html", 401},
		"data":           {"GET", "/api/live", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := r.main.http(t, row.method, row.path, ""); got.StatusCode != row.status {
				t.Errorf("%d %.100s", got.StatusCode, got.text)
			}
		})
	}
	page := r.main.http(t, "GET", "/", "")
	for header, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	} {
		if got := page.Header.Get(header); got != want {
			t.Errorf("%s is %q instead of %q", header, got, want)
		}
	}
	tag := page.Header.Get("ETag")
	if again := r.main.http(t, "GET", "/", "", "If-None-Match: "+tag); tag == "" || again.StatusCode != http.StatusNotModified {
		t.Errorf("with its tag %q the page is sent again: %d", tag, again.StatusCode)
	}
	if !strings.HasPrefix(page.text, "<!doctype html>") {
		t.Errorf("the page is %.100q", page.text)
	}
}

// TestPageAccess: no page where the queue is not served, and none for a browser that was led here.
func TestPageAccess(t *testing.T) {
	t.Parallel()
	open := newRig(t, func(s *setup) { s.HTTPAddr = "0.0.0.0:0" })
	for _, path := range []string{"/", "/ui/index.html", "/api/live", "/api/history", "/api/timeline?range=1m"} {
		open.main.http(t, "GET", path, "").is(t, 404, "is not known")
	}
	open.main.http(t, "POST", "/api/admin/stats", "").is(t, 404, "is not known")
	local := newRig(t)
	for _, header := range []string{"Host: example.org", "Origin: https://example.org", "Origin: null", "Sec-Fetch-Site: cross-site"} {
		for _, path := range []string{"/", "/ui/index.html", "/api/live", "/api/history", "/api/timeline?range=1m"} {
			local.main.http(t, "GET", path, "", header).is(t, 403, "this machine")
		}
		local.main.http(t, "POST", "/api/admin/stats", "{}", header).is(t, 403, "this machine")
	}
	guarded := newRig(t, withToken, func(s *setup) { s.HTTPAddr = "0.0.0.0:0" })
	for _, header := range []string{"X-None: ", "Authorization: Bearer s3cres", "Authorization: Basic " + httpToken} {
		for _, path := range []string{"/api/live", "/api/history", "/api/timeline?range=1m", "/api/admin/stats"} {
			guarded.main.http(t, "GET", path, "", header).is(t, 401, "DQ_HTTP_TOKEN")
		}
		guarded.main.http(t, "POST", "/api/admin/purge", `{}`, header).is(t, 401, "DQ_HTTP_TOKEN")
	}
	guarded.main.http(t, "POST", "/api/admin/stats", "", bearer).is(t, 200, `"delayed":0`)
}

// TestAPIVerbs: over HTTP a verb takes and answers what dq.admin takes and answers.
func TestAPIVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	ask := func(verb, body string) webAnswer {
		t.Helper()
		return r.main.http(t, "POST", "/api/admin/"+verb, body, bearer)
	}
	for _, id := range []string{"a", "b", "c"} {
		r.push(t, fmt.Sprintf(`{"id":%q,"topic":"t","delay":600,"body":{"x":"<b>"}}`, id))
	}
	for _, row := range [][2]string{
		{"get", `{"id":"a"}`},
		{"get", `{"id":"none"}`},
		{"get", `{"di":"a"}`},
		{"list", `{"state":"delayed","topic":"t","limit":2}`},
		{"list", `{"state":"asleep"}`},
		{"topics", ``},
		{"topics", `{"match":"t"}`},
		{"topics", `{"match":"none"}`},
		{"topics", `{"match":"a..b"}`},
		{"run", `{"id":"none"}`},
		{"kick", `{"id":"a"}`},
	} {
		want := r.admin(t, row[0], row[1])
		got := ask(row[0], row[1])
		got.is(t, want.Code, "")
		if strings.TrimSpace(got.text) != want.raw {
			t.Errorf("%s %s: %s instead of %s", row[0], row[1], got.text, want.raw)
		}
	}
	ask("nothing", `{}`).is(t, 400, "allowed is get, list, cancel, run, reschedule, kick, purge, pause, resume, topics, stats, bury")
	ask("stats", "").is(t, 200, `"delayed":3`)
	ask("reschedule", `{"id":"a","delay":500}`).is(t, 200, `"state":"delayed"`)
	ask("pause", `{"topic":"t"}`).is(t, 200, `"paused":true`)
	ask("run", `{"id":"a"}`).is(t, 200, `"state":"ready"`)
	ask("bury", `{"id":"a","reason":"of no use"}`).is(t, 200, `{"id":"a","state":"dead"}`)
	ask("bury", `{"id":"a"}`).is(t, 409, "dead")
	ask("bury", `{"id":"none"}`).is(t, 404, "no such job")
	ask("bury", ``).is(t, 400, "")
	if reason := r.look(t, "a").DeadReason; reason == nil || *reason != "buried: of no use" {
		t.Errorf("the reason is %v", ptrText(reason))
	}
	ask("kick", `{"topic":"t"}`).is(t, 200, `{"kicked":1}`)
	ask("resume", `{"topic":"t"}`).is(t, 200, `"paused":false`)
	ask("cancel", `{"id":"a"}`).is(t, 200, `"id":"a"`)
	ask("purge", `{"topic":"t","state":"delayed"}`).is(t, 200, `{"purged":2}`)
	ask("get", strings.Repeat(" ", 65<<10)).is(t, 413, "65536")
	ask("stats?x=1", "").is(t, 400, "x")
	r.main.http(t, "GET", "/api/admin/stats", "", bearer).is(t, 405, "POST")
	r.emptied(t)
}

// TestAPIChangesNothingWithoutToken: each verb that changes something is refused, and says what to do; the others answer.
func TestAPIChangesNothingWithoutToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring(t, "delayed", "delayed", "")
	r.bring(t, "dead", "dead", "")
	for verb, body := range map[string]string{
		"cancel": `{"id":"delayed"}`, "run": `{"id":"delayed"}`, "reschedule": `{"id":"delayed","delay":1}`, "bury": `{"id":"delayed"}`,
		"kick": `{"id":"dead"}`, "purge": `{"topic":"dead","state":"dead"}`, "pause": `{"topic":"delayed"}`, "resume": `{"topic":"delayed"}`,
	} {
		r.main.http(t, "POST", "/api/admin/"+verb, body).is(t, 403, "DQ_HTTP_TOKEN")
	}
	for verb, body := range map[string]string{"get": `{"id":"dead"}`, "list": `{"state":"dead"}`, "topics": ``, "stats": ``} {
		r.main.http(t, "POST", "/api/admin/"+verb, body).is(t, 200, "")
	}
	if r.look(t, "delayed").State != "delayed" || r.look(t, "dead").State != "dead" || r.topic(t, "delayed").Paused {
		t.Error("something was changed")
	}
	r.finish(t, "delayed")
	r.finish(t, "dead")
	r.emptied(t)
}

// TestAPIShutdown: a bridge that leaves or does not serve yet says so.
func TestAPIShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.idle, s.redis = true, testenv.Redis(t) })
	r.redis.Kill()
	b := r.run(t)
	for _, path := range []string{"/api/live", "/api/history", "/api/timeline?range=1h"} {
		b.http(t, "GET", path, "").is(t, 503, "does not serve yet")
	}
	b.http(t, "POST", "/api/admin/stats", "").is(t, 503, "does not serve yet")
	if got := b.http(t, "GET", "/", ""); got.StatusCode != http.StatusOK {
		t.Errorf("the page: %d", got.StatusCode)
	}
	r.redis.Restart()
	b.ready(t, 200, 2*patience)
	b.http(t, "GET", "/api/timeline?range=1h", "").is(t, 200, "")
}

// dataOf decodes the data of an envelope that came over HTTP.
func dataOf[T any](t *testing.T, answer webAnswer) T {
	t.Helper()
	var e struct{ Data T }
	if err := json.Unmarshal([]byte(answer.text), &e); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %.300s: %v", answer.StatusCode, answer.text, err)
	}
	return e.Data
}
