package cli

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// puppet answers one request after the other with what it was told, and keeps them.
type puppet struct {
	server *testenv.NATSServer

	mu      sync.Mutex // guards both
	asked   []string   // subject and payload
	answers []string   // the last one repeats
}

func newPuppet(t *testing.T, answers ...string) *puppet {
	t.Helper()
	p := &puppet{server: testenv.NATS(t), answers: answers}
	nc := p.server.Connect()
	if _, err := nc.Subscribe("dq.>", p.answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *puppet) answer(msg *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, strings.TrimPrefix(msg.Subject, "dq.")+" "+string(msg.Data))
	answer := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	msg.Respond([]byte(answer))
}

func (p *puppet) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// noon is the time in the tests that print moments.
func noon() time.Time { return time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC) }

func ok(data string) string { return `{"code":200,"message":"","data":` + data + `}` }

// A row is one call: what it asks, and what it makes of the answers.
type operateRow struct {
	args     []string
	answers  []string
	asks     []string
	out      string // all of stdout
	errs     string // all of stderr, of the command and of its error
	stdin    string
	terminal bool
}

const aJob = `{"id":"a","topic":"mail","state":"delayed","attempt":0,"due_at":"2030-01-31T13:30:00.000Z",` +
	`"first_due_at":"2030-01-31T13:30:00.000Z","pushed_at":"2030-01-31T11:59:00.000Z","delay":5460,"ttr":60,"max_attempts":0`

func operateRows() map[string]operateRow {
	jobs := ok(`{"jobs":[` + aJob + `},{"id":"a b","topic":"mail","state":"delayed","attempt":12,"due_at":"2030-02-03T12:00:00.000Z"}],"cursor":"c1"}`)
	last := ok(`{"jobs":[{"id":"c","topic":"mail.eu","state":"delayed","due_at":"2030-01-31T11:59:00.000Z"}],"cursor":""}`)
	empty, none := ok(`{"jobs":[],"cursor":"c2"}`), ok(`{"jobs":[],"cursor":""}`)
	return map[string]operateRow{
		"list on a terminal": {
			args: []string{"list", "mail", "--state", "delayed", "--all"}, answers: []string{jobs, empty, last}, terminal: true,
			asks: []string{
				`admin.list {"topic":"mail","state":"delayed","limit":1000}`,
				`admin.list {"topic":"mail","state":"delayed","limit":1000,"cursor":"c1"}`,
				`admin.list {"topic":"mail","state":"delayed","limit":1000,"cursor":"c2"}`,
			},
			out: `ID   TOPIC    STATE    ATTEMPT  WHEN
a    mail     delayed        0  due in 1h30m
a b  mail     delayed       12  due in 3d0h
c    mail.eu  delayed        0  due 1m ago
`,
		},
		"list up to a limit": {
			args: []string{"list", "--state", "delayed", "--limit", "3"}, answers: []string{jobs, empty, last},
			asks: []string{
				`admin.list {"state":"delayed","limit":3}`, `admin.list {"state":"delayed","limit":1,"cursor":"c1"}`,
				`admin.list {"state":"delayed","limit":1,"cursor":"c2"}`,
			},
			out: `ID   TOPIC    STATE    ATTEMPT  WHEN
a    mail     delayed        0  due 2030-01-31T13:30:00.000Z
a b  mail     delayed       12  due 2030-02-03T12:00:00.000Z
c    mail.eu  delayed        0  due 2030-01-31T11:59:00.000Z
`,
		},
		"list with more": {
			args: []string{"list", "--state", "delayed", "--limit", "2", "--cursor", "c0"}, answers: []string{jobs},
			asks: []string{`admin.list {"state":"delayed","limit":2,"cursor":"c0"}`},
			out:  "ID   TOPIC  STATE    ATTEMPT  WHEN\na    mail   delayed        0  due 2030-01-31T13:30:00.000Z\na b  mail   delayed       12  due 2030-02-03T12:00:00.000Z\n",
			errs: "more delayed jobs follow: --limit or --all shows them\n",
		},
		"list in every state": {
			args: []string{"list", "mail"}, terminal: true, answers: []string{
				none,
				ok(`{"jobs":[{"id":"r","topic":"mail","state":"ready","due_at":"2030-01-31T11:00:00Z"}],"cursor":""}`),
				ok(`{"jobs":[{"id":"f","topic":"mail","state":"inflight","attempt":1,"deadline_at":"2030-01-31T12:00:30Z"}],"cursor":""}`),
				ok(`{"jobs":[{"id":"d","topic":"mail","state":"dead","attempt":3,"dead_at":"2030-01-31T11:58:00Z","dead_reason":"buried: why"}],"cursor":""}`),
			},
			asks: []string{
				`admin.list {"topic":"mail","state":"delayed","limit":100}`, `admin.list {"topic":"mail","state":"ready","limit":100}`,
				`admin.list {"topic":"mail","state":"inflight","limit":100}`, `admin.list {"topic":"mail","state":"dead","limit":100}`,
			},
			out: `ID  TOPIC  STATE     ATTEMPT  WHEN
r   mail   ready           0  due 1h ago
f   mail   inflight        1  TTR ends in 30s
d   mail   dead            3  died 2m ago, buried: why
`,
		},
		"list of nothing": {
			args: []string{"list", "mail", "--state", "dead"}, answers: []string{none},
			asks: []string{`admin.list {"topic":"mail","state":"dead","limit":100}`}, errs: "no jobs\n",
		},
		"list as JSON": {
			args: []string{"list", "mail", "--state", "delayed", "--json"}, answers: []string{jobs, empty, last},
			asks: []string{
				`admin.list {"topic":"mail","state":"delayed","limit":100}`, `admin.list {"topic":"mail","state":"delayed","limit":98,"cursor":"c1"}`,
				`admin.list {"topic":"mail","state":"delayed","limit":98,"cursor":"c2"}`,
			},
			out: jobs + "\n" + empty + "\n" + last + "\n",
		},
		"topics": {
			args: []string{"topics", "mail.>"}, answers: []string{
				ok(`{"topics":[{"topic":"mail.us","delayed":1,"ready":2,"inflight":3,"dead":4,"listening":true,"paused":false,"oldest_ready_s":61.5}],"cursor":"1"}`),
				ok(`{"topics":[],"cursor":"2"}`),
				ok(`{"topics":[{"topic":"mail.eu","delayed":1234567,"listening":null,"paused":true,"oldest_ready_s":null},{"topic":"mail.us","ready":5,"listening":false}],"cursor":""}`),
			},
			asks: []string{
				`admin.topics {"match":"mail.\u003e","limit":100}`, `admin.topics {"match":"mail.\u003e","limit":99,"cursor":"1"}`,
				`admin.topics {"match":"mail.\u003e","limit":99,"cursor":"2"}`,
			},
			out: `TOPIC    DELAYED  READY  INFLIGHT  DEAD  LISTENING  PAUSED  OLDEST
mail.eu  1234567      0         0     0  -          yes          -
mail.us        0      5         0     0  no         no           -
`,
		},
		"topics with more": {
			args: []string{"topics", "--limit", "1"}, answers: []string{ok(`{"topics":[{"topic":"a"},{"topic":"b"}],"cursor":"1"}`)},
			asks: []string{`admin.topics {"limit":1}`},
			out:  "TOPIC  DELAYED  READY  INFLIGHT  DEAD  LISTENING  PAUSED  OLDEST\na            0      0         0     0  -          no           -\n",
			errs: "more topics follow: --limit or --all shows them\n",
		},
		"stats": {
			args: []string{"stats"}, terminal: true, answers: []string{ok(`{"delayed":1234567,"ready":0,"inflight":3,"dead":1,"topics":4,` +
				`"due":{"1m":5,"5m":0,"1h":7,"1d":0,"later":1234555},"replicas":[{"id":"0.ab","host":"h1","version":"v1","started_at":"2030-01-31T11:00:00.000Z"},` +
				`{"id":"1.cd","host":"h2","version":"v1","started_at":""}],"redis":{"version":"7.2.4","used_memory":1572864,"maxmemory":0,` +
				`"maxmemory_policy":"noeviction","aof_enabled":true,"connected_replicas":1}}`)},
			asks: []string{`admin.stats {}`},
			out: `DELAYED  READY  INFLIGHT  DEAD  TOPICS
1234567      0         3     1       4

DUE WITHIN 1m  5m  1h  1d    LATER
            5   0   7   0  1234555

REPLICA  HOST  VERSION  STARTED
0.ab     h1    v1       1h ago
1.cd     h2    v1

Redis 7.2.4: memory 1.5 MiB of no limit (noeviction), append-only file on, 1 replica
`,
		},
		"get": {
			args: []string{"get", "--", "-a"}, answers: []string{ok(aJob + `,"max_attempts":3,"backoff":[1,90],"expires":3600,` +
				`"headers":{"b":["1","2"],"a":["x"]},"body":{"n":1.0}}`)},
			asks: []string{`admin.get {"id":"-a"}`},
			out: `id            a
topic         mail
state         delayed
attempts      0 of 3
due           2030-01-31T13:30:00.000Z (in 1h30m)
pushed        2030-01-31T11:59:00.000Z (1m ago)
delay         1h31m
TTR           1m
backoff       1s, 1m30s
expires       1h after it is due
header        a=x
header        b=1
header        b=2

{"n":1.0}
`,
		},
		"get a dead one": {
			args: []string{"get", "a"}, answers: []string{ok(`{"id":"a","topic":"mail","state":"dead","attempt":3,"due_at":"2030-01-31T11:00:00Z",` +
				`"first_due_at":"2030-01-31T10:00:00Z","pushed_at":"2030-01-31T10:00:00Z","delay":0,"ttr":0,"max_attempts":0,` +
				`"dead_reason":"expired","dead_at":"2030-01-31T11:59:59Z","body_bytes":2000000}`)},
			asks: []string{`admin.get {"id":"a"}`},
			out: `id            a
topic         mail
state         dead
reason        expired
died          2030-01-31T11:59:59.000Z (1s ago)
attempts      3
due           2030-01-31T11:00:00.000Z (1h ago)
first due     2030-01-31T10:00:00.000Z (2h ago)
pushed        2030-01-31T10:00:00.000Z (2h ago)
delay         0s
TTR           0, no redelivery

(2000000 bytes, which do not fit into a reply)
`,
		},
		"get a body of bytes": {
			args: []string{"get", "a", "--body"}, answers: []string{ok(aJob + `,"body_base64":"/wBy"}`)},
			asks: []string{`admin.get {"id":"a"}`}, out: "\xff\x00r",
		},
		"get a body of bytes on a terminal": {
			args: []string{"get", "a", "--body"}, answers: []string{ok(aJob + `,"body_base64":"/wBy"}`)}, terminal: true,
			asks: []string{`admin.get {"id":"a"}`}, out: "\\xff\\x00r\n",
		},
		"get a body that is too large": {
			args: []string{"get", "a", "--body"}, answers: []string{ok(aJob + `,"body_bytes":7}`)},
			asks: []string{`admin.get {"id":"a"}`}, errs: "1 the body has 7 bytes, which do not fit into a reply",
		},
		"get as JSON is one line": {
			args: []string{"get", "a", "--json"}, answers: []string{ok("{\"body\":{\n \"n\": 1.0}}")},
			asks: []string{`admin.get {"id":"a"}`}, out: ok(`{"body":{"n":1.0}}`) + "\n",
		},
		"get nothing": {
			args: []string{"get", "a"}, answers: []string{`{"code":404,"message":"id a: no such job","data":null}`},
			asks: []string{`admin.get {"id":"a"}`}, errs: "1 404: id a: no such job",
		},
		"get nothing as JSON": {
			args: []string{"get", "a", "--json"}, answers: []string{`{"code":404,"message":"id a: no such job","data":null}`},
			asks: []string{`admin.get {"id":"a"}`}, out: `{"code":404,"message":"id a: no such job","data":null}` + "\n",
			errs: "1 404: id a: no such job",
		},
		"cancel": {
			args: []string{"cancel", "a"}, answers: []string{ok(`{"id":"a","state":"delayed"}`)},
			asks: []string{`admin.cancel {"id":"a"}`}, out: "cancelled a, it was delayed\n",
		},
		"cancel nothing": {
			args: []string{"cancel", "a"}, answers: []string{ok(`{"id":"a","state":"unknown"}`)},
			asks: []string{`admin.cancel {"id":"a"}`}, out: "a was not there\n",
		},
		"run": {
			args: []string{"run", "a"}, answers: []string{ok(`{"id":"a","state":"ready","due_at":"2030-01-31T12:00:00Z"}`)},
			asks: []string{`admin.run {"id":"a"}`}, out: "a is ready, due now\n",
		},
		"reschedule": {
			args: []string{"reschedule", "a", "1h30m"}, answers: []string{ok(`{"id":"a","state":"delayed","due_at":"2030-01-31T13:30:00Z"}`)},
			asks: []string{`admin.reschedule {"id":"a","delay":"1h30m"}`}, out: "a is delayed, due 2030-01-31T13:30:00.000Z (in 1h30m)\n",
		},
		"reschedule to a moment": {
			args: []string{"reschedule", "a", "--at", "2030-03-31T12:00:00Z"}, answers: []string{ok(`{"id":"a","state":"delayed","due_at":"2030-03-31T12:00:00Z"}`)},
			asks: []string{`admin.reschedule {"id":"a","at":"2030-03-31T12:00:00Z"}`},
			out:  "a is delayed, due 2030-03-31T12:00:00.000Z (in 59d0h)\n",
		},
		"kick": {
			args: []string{"kick", "a"}, answers: []string{ok(`{"kicked":1}`)}, asks: []string{`admin.kick {"id":"a"}`}, out: "kicked 1 job\n",
		},
		"kick a topic": {
			args: []string{"kick", "--topic", "mail", "--limit", "10"}, answers: []string{ok(`{"kicked":7}`)},
			asks: []string{`admin.kick {"topic":"mail","limit":10}`}, out: "kicked 7 jobs\n",
		},
		"pause": {
			args: []string{"pause", "mail"}, answers: []string{ok(`{"topic":"mail","paused":true}`)},
			asks: []string{`admin.pause {"topic":"mail"}`}, out: "mail is paused\n",
		},
		"resume": {
			args: []string{"resume", "mail"}, answers: []string{ok(`{"topic":"mail","paused":false}`)},
			asks: []string{`admin.resume {"topic":"mail"}`}, out: "mail is delivered\n",
		},
		"purge": {
			args: []string{"purge", "mail", "--state", "dead", "--yes"}, answers: []string{ok(`{"purged":3}`)},
			asks: []string{`admin.purge {"topic":"mail","state":"dead"}`}, out: "removed 3 jobs\n",
		},
		"purge confirmed": {
			args: []string{"purge", "mail", "--state", "dead"}, terminal: true, stdin: "y\n",
			answers: []string{ok(`{"topics":[{"topic":"mail","dead":3}],"cursor":""}`), ok(`{"purged":3}`)},
			asks:    []string{`admin.topics {"match":"mail","limit":1000}`, `admin.purge {"topic":"mail","state":"dead"}`},
			out:     "removed 3 jobs\n", errs: "Remove 3 dead jobs of topic mail for good? [y/N] ",
		},
		"purge not confirmed": {
			args: []string{"purge", "mail", "--state", "dead"}, terminal: true, stdin: "\n",
			answers: []string{ok(`{"topics":[{"topic":"mail","dead":1}],"cursor":""}`)},
			asks:    []string{`admin.topics {"match":"mail","limit":1000}`},
			errs:    "Remove 1 dead job of topic mail for good? [y/N] 1 nothing is removed",
		},
		"finish": {
			args: []string{"finish", `it's "a"`}, answers: []string{ok(`{"finished":1}`)},
			asks: []string{`finish {"id":"it's \"a\""}`}, out: "finished it's \"a\"\n",
		},
		"finish several": {
			args: []string{"finish", "a", "b"}, answers: []string{ok(`[{"code":200,"data":{"finished":1}},{"code":200,"data":{"finished":0}}]`)},
			asks: []string{`finish [{"id":"a"},{"id":"b"}]`}, out: "finished a\nb was not there\n",
		},
		"touch": {
			args: []string{"touch", "a"}, answers: []string{ok(`{"id":"a","state":"inflight","deadline_at":"2030-01-31T12:01:00Z"}`)},
			asks: []string{`touch {"id":"a"}`}, out: "touched a, its TTR ends 2030-01-31T12:01:00.000Z (in 1m)\n",
		},
		"touch refused": {
			args: []string{"touch", "a"}, answers: []string{`{"code":409,"message":"id a: the job is dead","data":null}`},
			asks: []string{`touch {"id":"a"}`}, errs: "1 409: id a: the job is dead",
		},
		"release several": {
			args: []string{"release", "a", "b", "--delay", "5"},
			answers: []string{`{"code":207,"message":"","data":[{"code":200,"data":{"id":"a","state":"delayed","due_at":"2030-01-31T12:00:05Z"}},` +
				`{"code":404,"message":"id b: no such job","data":null}]}`},
			asks: []string{`release [{"id":"a","delay":5},{"id":"b","delay":5}]`},
			out:  "released a, due 2030-01-31T12:00:05.000Z (in 5s)\n",
			errs: "404: id b: no such job\n1 release: 1 of 2 failed",
		},
		"bury": {
			args: []string{"bury", "a", "--reason", "why"}, answers: []string{ok(`{"id":"a","state":"dead"}`)},
			asks: []string{`bury {"id":"a","reason":"why"}`}, out: "buried a\n",
		},
		"several refused as a whole": {
			args: []string{"bury", "a", "b"}, answers: []string{`{"code":413,"message":"too many","data":null}`},
			asks: []string{`bury [{"id":"a"},{"id":"b"}]`}, errs: "1 413: too many",
		},
		"pop nothing": {
			args: []string{"pop", "mail", "--wait", "5s"}, answers: []string{`{"code":404,"message":"no job at present","data":null}`},
			asks: []string{`pop.mail {"wait":"5s"}`}, errs: "1 404: no job at present",
		},
		"pop in seconds": {
			args: []string{"pop", "mail", "--wait", "2.5"}, answers: []string{`{"code":404,"message":"topic is paused","data":null}`},
			asks: []string{`pop.mail {"wait":2.5}`}, errs: "1 404: topic is paused",
		},
		"pop from something else": {
			args: []string{"pop", "mail"}, answers: []string{`hello`}, asks: []string{`pop.mail `},
			errs: "1 dq.pop.mail: the reply is not from a bridge: invalid character 'h' looking for beginning of value",
		},
		"wrong state":           {args: []string{"list", "a", "--state", "new"}, errs: `2 --state "new": want delayed, ready, inflight or dead`},
		"list of everything":    {args: []string{"list"}, errs: "2 list wants a TOPIC, or --state"},
		"limit":                 {args: []string{"list", "a", "--limit", "0"}, errs: "2 --limit 0: want 1 or more"},
		"purge in a pipe":       {args: []string{"purge", "a", "--state", "dead"}, errs: "2 purge removes jobs for good: where nobody can be asked it wants --yes"},
		"purge without a state": {args: []string{"purge", "a", "--yes"}, errs: `2 --state "": want delayed, ready, inflight or dead`},
		"kick nothing":          {args: []string{"kick"}, errs: "2 kick wants either an ID or --topic"},
		"kick both":             {args: []string{"kick", "a", "--topic", "b"}, errs: "2 kick wants either an ID or --topic"},
		"kick a limit":          {args: []string{"kick", "a", "--limit", "2"}, errs: "2 --limit goes with --topic"},
		"reschedule to nowhen":  {args: []string{"reschedule", "a"}, errs: "2 reschedule wants either DELAY or --at"},
		"reschedule to both":    {args: []string{"reschedule", "a", "1", "--at", "1"}, errs: "2 reschedule wants either DELAY or --at"},
		"reschedule to soon":    {args: []string{"reschedule", "a", "soon"}, errs: `2 DELAY "soon": want seconds as in 90 or 0.25, or a duration as in 1m30s`},
		"release soon":          {args: []string{"release", "a", "--delay", "1d"}, errs: `2 --delay "1d": want seconds as in 90 or 0.25, or a duration as in 1m30s`},
		"pop of no subject":     {args: []string{"pop", "a b"}, errs: `2 topic "a b" cannot be part of a NATS subject`},
		"interval":              {args: []string{"stats", "--interval", "0s"}, errs: "2 --interval 0s: want more than 0"},
	}
}

func TestOperate(t *testing.T) {
	t.Parallel()
	for name, row := range operateRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.test(t)
		})
	}
}

func (row operateRow) test(t *testing.T) {
	t.Helper()
	p := newPuppet(t, append(row.answers, "")...)
	var out, errs screen
	c := call{stdin: row.stdin, terminal: row.terminal, errs: &errs, now: noon, vars: map[string]string{"DQ_NATS_URL": p.server.URL()}}
	err := c.run(t.Context(), &out, row.args...)
	told := errs.String()
	switch {
	case IsUsage(err):
		told += "2 " + err.Error()
	case err != nil:
		told += "1 " + err.Error()
	}
	if out.String() != row.out {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), row.out)
	}
	if told != row.errs {
		t.Errorf("told %q, want %q", told, row.errs)
	}
	if got, want := strings.Join(p.requests(), "\n"), strings.Join(row.asks, "\n"); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}
