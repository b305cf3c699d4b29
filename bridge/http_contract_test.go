package bridge_test

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := r.main.get(t, path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := r.main.get(t, "/nothing"); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.work(t, "t")
	r.push(t, `{"id":"a","topic":"t"}`)
	r.push(t, `{"id":"a","topic":"t"}`)
	w.next(t).is(t, "a", 1).settle(t, "-NAK")
	w.next(t).is(t, "a", 2).finish(t)
	r.push(t, `{"id":"b","topic":"t","max_attempts":1}`)
	w.next(t).is(t, "b", 1).settle(t, "+TERM a long story")
	r.push(t, `{"id":"c","topic":"t"}`)
	w.next(t).is(t, "c", 1).settle(t, "+WPI")
	r.push(t, `{"id":"d","topic":"t","delay":99}`)
	r.push(t, `{"id":"e","topic":"silent"}`)
	r.ask(t, r.msg("push", `nonsense`))
	r.tried(t)
	for sample, want := range map[string]float64{
		`dqbridge_pushes_total{code="200"}`: 6, `dqbridge_duplicates_total`: 1, `dqbridge_deliveries_total`: 4,
		`dqbridge_redeliveries_total`: 1, `dqbridge_finishes_total`: 1, `dqbridge_verbs_total{verb="finish"}`: 1,
		`dqbridge_verbs_total{verb="release"}`: 1, `dqbridge_verbs_total{verb="touch"}`: 1, `dqbridge_verbs_total{verb="bury"}`: 1,
		`dqbridge_rejections_total{code="400"}`: 1, `dqbridge_dead_total{reason="buried"}`: 1, `dqbridge_redis_up`: 1, `dqbridge_nats_up`: 1,
		`dqbridge_jobs{state="delayed"}`: 1, `dqbridge_jobs{state="dead"}`: 1, `dqbridge_lateness_seconds_count{topic="t"}`: 3,
		`dqbridge_orphans_total`: 0, `dqbridge_errors_total`: 0,
	} {
		r.main.counts(t, sample, want)
	}
	now := float64(time.Now().Unix())
	if last := r.main.metric(t, `dqbridge_ticker_last_run_timestamp_seconds{bucket="7"}`); last < now-60 || last > now+60 {
		t.Errorf("the last run of a ticker is %v", last)
	}
}

// TestHTTPAccess: who gets an answer, by token, Host and Origin.
func TestHTTPAccess(t *testing.T) {
	t.Parallel()
	const token = "s3cret"
	const local, open = "127.0.0.1:0", "0.0.0.0:0"
	bridges := map[[2]string]*replica{}
	for _, way := range [][2]string{{local, ""}, {local, token}, {open, ""}, {open, token}} {
		r := newRig(t, func(s *setup) { s.HTTPAddr, s.HTTPToken = way[0], way[1] })
		bridges[way] = r.main
		// Who serves others without a token is told so.
		if warned := r.main.log.has(`"level":"warn"`) && r.main.log.has("DQ_HTTP_TOKEN"); warned != (way == [2]string{open, ""}) {
			t.Errorf("%q: the log warns of a missing token: %v", way, warned)
		}
	}
	for name, row := range map[string]struct {
		addr, token string
		path        string
		headers     []string
		status      int
	}{
		"loopback":                 {path: "/metrics", status: 200},
		"localhost":                {path: "/metrics", headers: []string{"Host: localhost:8080"}, status: 200},
		"IPv6":                     {path: "/metrics", headers: []string{"Host: [::1]:8080"}, status: 200},
		"own origin":               {path: "/metrics", headers: []string{"Origin: http://127.0.0.1:8080"}, status: 200},
		"own origin, localhost":    {path: "/metrics", headers: []string{"Origin: http://localhost"}, status: 200},
		"foreign host":             {path: "/metrics", headers: []string{"Host: example.org"}, status: 403},
		"foreign host, port":       {path: "/metrics", headers: []string{"Host: example.org:8080"}, status: 403},
		"rebound host":             {path: "/metrics", headers: []string{"Host: 127.0.0.1.example.org"}, status: 403},
		"host like localhost":      {path: "/metrics", headers: []string{"Host: localhost.example.org"}, status: 403},
		"foreign origin":           {path: "/metrics", headers: []string{"Origin: https://example.org"}, status: 403},
		"origin null":              {path: "/metrics", headers: []string{"Origin: null"}, status: 403},
		"origin with our name":     {path: "/metrics", headers: []string{"Origin: http://127.0.0.1@example.org"}, status: 403},
		"foreign host, health":     {path: "/healthz", headers: []string{"Host: example.org"}, status: 403},
		"token":                    {token: token, path: "/metrics", headers: []string{"Authorization: Bearer " + token}, status: 200},
		"token missing":            {token: token, path: "/metrics", status: 401},
		"token wrong":              {token: token, path: "/metrics", headers: []string{"Authorization: Bearer s3cres"}, status: 401},
		"token longer":             {token: token, path: "/metrics", headers: []string{"Authorization: Bearer s3crets"}, status: 401},
		"token empty":              {token: token, path: "/metrics", headers: []string{"Authorization: Bearer "}, status: 401},
		"token as basic":           {token: token, path: "/metrics", headers: []string{"Authorization: Basic " + token}, status: 401},
		"health needs no token":    {token: token, path: "/healthz", status: 200},
		"readiness needs no token": {token: token, path: "/readyz", status: 200},
		"any other path":           {token: token, path: "/nothing", status: 401},
		"any other, with token":    {token: token, path: "/nothing", headers: []string{"Authorization: Bearer " + token}, status: 404},
		"token and foreign host":   {token: token, path: "/metrics", headers: []string{"Authorization: Bearer " + token, "Host: example.org"}, status: 200},
		"open address, health":     {addr: open, path: "/healthz", headers: []string{"Host: example.org"}, status: 200},
		"open address, metrics":    {addr: open, path: "/metrics", headers: []string{"Host: example.org"}, status: 200},
		"open address, else":       {addr: open, path: "/push", status: 404},
		"open address, token":      {addr: open, token: token, path: "/metrics", status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bridges[[2]string{cmp.Or(row.addr, local), row.token}]
			status, body := b.get(t, row.path, row.headers...)
			if status != row.status {
				t.Errorf("status %d instead of %d: %.200s", status, row.status, body)
			}
			if b.log.has(token) || strings.Contains(body, token) {
				t.Error("the token is told")
			}
		})
	}
}

// TestNoHTTP: an empty address serves nothing; one that is taken is an error.
func TestNoHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.HTTPAddr = "" })
	if r.main.log.has("HTTP is served") {
		t.Error("HTTP is served")
	}
	taken := strings.TrimPrefix(r.nats.URL(), "nats://")
	err := r.run(t, func(s *setup) { s.HTTPAddr = taken }).wait(t)
	if err == nil || !strings.Contains(err.Error(), taken[strings.LastIndexByte(taken, ':'):]) {
		t.Errorf("on the taken address %s it ended with %v", taken, err)
	}
}
