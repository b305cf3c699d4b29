package bridge_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// TestLive: the first event comes at once and holds all, the next one a second later, and what happens is seen.
func TestLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(t, `{"id":"later","topic":"quiet","delay":600}`)
	began := time.Now()
	s := r.main.live(t, "")
	e := s.next()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the first event took %v", took)
	}
	if e.Version != "v1.2.3" || e.MayChange || e.Error != "" || !e.Health.Ready || e.Health.Lines[0] != "ok" ||
		e.Stats.Delayed != 1 || e.Stats.Topics != 1 || len(e.Stats.Replicas) != 1 || e.Stats.Replicas[0].ID != e.Replica {
		t.Errorf("the first event is %s", s.raw)
	}
	if redis := e.Redis; redis.Persistence == "" || redis.UsedMemory < 1 || redis.Policy == "" || redis.Concerns == nil || !redis.SaveOK || !redis.WriteOK {
		t.Errorf("of Redis it says %s", s.raw)
	}
	if f := e.Figures; f.Replicas != 1 || f.Answered != 1 || f.P50 != nil || f.Finished != 0 {
		t.Errorf("figures %s", s.raw)
	}
	if len(e.Topics) != 1 || e.Topics[0].Topic != "quiet" || e.Topics[0].Delayed != 1 || e.Topics[0].P50 != nil || *e.Cursor != "" {
		t.Errorf("topics %s", s.raw)
	}
	second := s.next()
	if apart := second.At.Sub(e.At); apart < 800*time.Millisecond || apart > patience {
		t.Errorf("the second event is %v later", apart)
	}
	w := r.work(t, "mail")
	for i := range 20 {
		r.push(t, fmt.Sprintf(`{"id":"job-%d","topic":"mail"}`, i))
		w.next(t).finish(t)
	}
	e = s.until("the topic goes", func(e liveEvent) bool {
		return *e.Figures.In > 0 && e.Figures.Finished > 0 && e.Figures.P99 != nil && len(e.Topics) == 1
	})
	if *e.Figures.Out <= 0 || *e.Figures.P50 > *e.Figures.P99 || *e.Figures.P99 <= 0 {
		t.Errorf("figures %s", s.raw)
	}
	r.push(t, `{"id":"more","topic":"mail","delay":600}`)
	e = s.until("the topic is there", func(e liveEvent) bool { return len(e.Topics) == 2 && e.Topics[0].Topic == "mail" })
	if mail := e.Topics[0]; mail.Delayed != 1 || mail.P50 == nil || *mail.In <= 0 || mail.Listening == nil || !*mail.Listening {
		t.Errorf("topics %s", s.raw)
	}
	r.finish(t, "later")
	r.finish(t, "more")
	r.emptied(t)
}

// TestLiveViews: which topics are shown, and what is refused.
func TestLiveViews(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 7 {
		r.push(t, fmt.Sprintf(`{"id":"m%d","topic":"mail.%d","delay":600}`, i, i))
		r.push(t, fmt.Sprintf(`{"id":"p%d","topic":"print.%d","delay":600}`, i, i))
	}
	shown := func(query string) ([]string, string) {
		e := r.main.live(t, query).next()
		var names []string
		for _, topic := range e.Topics {
			names = append(names, topic.Topic)
		}
		return names, *e.Cursor
	}
	if names, cursor := shown("?match=mail.*"); len(names) != 7 || names[0] != "mail.0" || cursor != "" {
		t.Errorf("mail.*: %q %q", names, cursor)
	}
	if names, _ := shown("?match=print.3"); !slices.Equal(names, []string{"print.3"}) {
		t.Errorf("print.3: %q", names)
	}
	if names, _ := shown("?match=none"); len(names) != 0 {
		t.Errorf("none: %q", names)
	}
	var all []string
	for cursor := ""; ; {
		names, next := shown("?limit=4&cursor=" + cursor)
		all = append(all, names...)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 14 {
		t.Errorf("page by page: %q", all)
	}
	for query, names := range map[string]string{
		"?limit=0": "limit", "?limit=201": "limit", "?limit=x": "limit", "?match=a..b": "match", "?cursor=%21": "cursor", "?topic=t": "topic",
		"?limit=1&limit=2": "limit",
	} {
		r.main.http(t, "GET", "/api/live"+query, "").is(t, 400, names)
	}
	r.main.http(t, "POST", "/api/live", "").is(t, 405, "GET")
	for i := range 7 {
		r.finish(t, fmt.Sprintf("m%d", i))
		r.finish(t, fmt.Sprintf("p%d", i))
	}
	r.emptied(t)
}

// TestLiveIsBounded: beyond so many streams the next is refused; those who look at the same share what is read; a stream
// that ends makes room.
func TestLiveIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	const most = 32
	streams := make([]*stream, most)
	seen := map[time.Time]int{}
	for i := range streams {
		streams[i] = r.main.live(t, "", bearer)
		seen[streams[i].next().At]++
	}
	if len(seen) > most/2 { // it takes far less than a second each
		t.Errorf("%d streams have seen %d readings", most, len(seen))
	}
	if e := streams[0].next(); !e.MayChange {
		t.Error("with a token nothing can be changed")
	}
	r.main.http(t, "GET", "/api/live", "", bearer).is(t, 503, "too many streams")
	streams[0].cancel()
	testenv.Eventually(t, patience, func() bool {
		_, status := r.main.tryLive(t, "", bearer)
		return status == http.StatusOK
	}, "there is room again")
}

// TestLiveSlowClient: a client that does not take its events is dropped, and the others do not notice.
func TestLiveSlowClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const topics = 200
	var jobs []string
	for i := range topics {
		jobs = append(jobs, fmt.Sprintf(`{"id":"job-%d","topic":"t.%d.%s","delay":600}`, i, i, strings.Repeat("x", 150)))
	}
	r.main.http(t, "POST", "/push", "["+strings.Join(jobs, ",")+"]", asJSON).is(t, 200, "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.main.url(t, ""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err = conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err = fmt.Fprint(conn, "GET /api/live?limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	other := r.main.live(t, "?limit=200")
	for range 12 {
		if e := other.next(); e.Error != "" || len(e.Topics) != topics {
			t.Fatalf("the other stream has %d topics, error %q", len(e.Topics), e.Error)
		}
	}
	// Only one stream is left, so there is room for 31.
	for i := range 31 {
		testenv.Eventually(t, 2*patience, func() bool {
			_, status := r.main.tryLive(t, "?limit=1")
			return status == http.StatusOK
		}, fmt.Sprintf("there is room for stream %d", i))
	}
	for i := range topics {
		r.finish(t, fmt.Sprintf("job-%d", i))
	}
	r.emptied(t)
}

// TestLiveStop: a bridge with open streams ends as soon as one without, and ends them.
func TestLiveStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var streams []*stream
	for i := range 10 {
		s := r.main.live(t, fmt.Sprintf("?limit=%d", i+1))
		s.next()
		streams = append(streams, s)
	}
	began := time.Now()
	if err := r.main.stop(t); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the end took %v", took)
	}
	for _, s := range streams {
		s.ended()
	}
}

// TestLiveRedisAway: while Redis is away the stream goes on and says so, and then has all again.
func TestLiveRedisAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.redis = testenv.Redis(t, "--appendonly", "yes") })
	s := r.main.live(t, "")
	if e := s.next(); e.Redis.Persistence != "aof" || e.Redis.SavedAt != nil {
		t.Errorf("of Redis it says %s", s.raw)
	}
	r.redis.Kill()
	e := s.until("Redis is away", func(e liveEvent) bool { return e.Error != "" && !e.Health.Ready })
	if e.Stats != nil || e.Topics != nil || e.Cursor != nil || !strings.Contains(e.Error, "redis") || e.Figures.Answered != 1 {
		t.Errorf("while Redis is away: %s", s.raw)
	}
	r.redis.Restart()
	s.until("Redis is back", func(e liveEvent) bool { return e.Error == "" && e.Health.Ready && e.Stats != nil && e.Topics != nil })
}

// TestLiveSnapshots: without an append-only file it is told whether Redis has made a snapshot, and when.
func TestLiveSnapshots(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.redis = testenv.Redis(t, "--save", "") })
	s := r.main.live(t, "")
	if e := s.next(); e.Redis.Persistence != "none" || e.Redis.SavedAt != nil || len(e.Redis.Concerns) == 0 {
		t.Errorf("of Redis it says %s", s.raw)
	}
	if err := r.redis.Client().BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	e := s.until("there is a snapshot", func(e liveEvent) bool { return e.Redis.Persistence == "rdb" && e.Redis.SavedAt != nil })
	if age := time.Since(*e.Redis.SavedAt); age < -time.Minute || age > time.Minute {
		t.Errorf("the snapshot is %v old", age)
	}
}

// TestLiveManyTopics: with 10,000 topics a stream reads the page that is looked at, not all of them each second.
func TestLiveManyTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *setup) { s.redis = testenv.Redis(t) })
	const topics, batch = 10_000, 1000
	for from := 0; from < topics; from += batch {
		var jobs []string
		for i := range batch {
			jobs = append(jobs, fmt.Sprintf(`{"id":"job-%d","topic":"t.%d","delay":6000}`, from+i, from+i))
		}
		r.main.http(t, "POST", "/push", "["+strings.Join(jobs, ",")+"]", asJSON).is(t, 200, "")
	}
	s := r.main.live(t, "?limit=50")
	e := s.next()
	if e.Stats.Topics != topics || len(e.Topics) != 50 || *e.Cursor == "" || e.Error != "" {
		t.Errorf("%d topics, of which %d are shown: %s", e.Stats.Topics, len(e.Topics), e.Error)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.ended()
	}()
	if n := commandsASecond(t, r.redis); n > 600 { // a look at each topic would be ten times as much
		t.Errorf("Redis gets %d commands a second", n)
	}
	s.cancel()
	<-ended
	if e = r.main.live(t, "?limit=50&cursor="+*e.Cursor).next(); len(e.Topics) != 50 || e.Error != "" {
		t.Errorf("the next page has %d topics: %s", len(e.Topics), e.Error)
	}
}
