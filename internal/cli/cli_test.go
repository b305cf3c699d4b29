package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// screen is what a command printed; it may still run.
type screen struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

type call struct {
	vars     map[string]string
	stdin    string
	colour   bool
	terminal bool
	errs     *screen          // what goes to stderr; nil: to out as well
	now      func() time.Time // nil: the real one
}

// run calls a command as the program would.
func (c call) run(ctx context.Context, out *screen, args ...string) error {
	root := c.root(out) //nolint:contextcheck // cobra hands ctx to the commands
	root.SetOut(io.Discard)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// complete asks for completions as a shell does.
func (c call) complete(ctx context.Context, out *screen, args ...string) error {
	root := c.root(out) //nolint:contextcheck // cobra hands ctx to the commands
	root.SetOut(out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, args...))
	return root.ExecuteContext(ctx)
}

func (c call) root(out *screen) *cobra.Command {
	errs, now := c.errs, c.now
	if errs == nil {
		errs = out
	}
	if now == nil {
		now = time.Now
	}
	root := &cobra.Command{Use: "dqbridge", SilenceErrors: true, SilenceUsage: true}
	Add(root, Env{
		Getenv: func(name string) string { return c.vars[name] }, Stdin: strings.NewReader(c.stdin),
		Stdout: out, Stderr: errs, Now: now, Colour: c.colour,
		Terminal: c.terminal, Interactive: c.terminal, Redact: func(string) string { return "(redacted)" },
	})
	return root
}

// pushed runs a push against a NATS client that keeps the message and gives this answer.
func pushed(t *testing.T, answer string, c call, args ...string) (*nats.Msg, string, error) {
	t.Helper()
	server := testenv.NATS(t)
	got := make(chan *nats.Msg, 1)
	nc := server.Connect()
	for _, subject := range []string{"dq.push", "dq.push.>"} {
		if _, err := nc.Subscribe(subject, func(msg *nats.Msg) {
			got <- msg
			msg.Respond([]byte(answer))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var out screen
	err := c.run(t.Context(), &out, append([]string{"push", "--nats", server.URL()}, args...)...)
	select {
	case msg := <-got:
		return msg, out.String(), err
	default:
		return nil, out.String(), err
	}
}

const fine = `{"code":200,"message":"","data":{"id":"a","due_at":"2000-01-01T00:00:00.000Z","duplicate":false}}`

func TestPushPayload(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args    []string
		stdin   string
		subject string // default dq.push.mail
		payload string
		headers map[string]string
	}{
		"topic alone":      {args: []string{"mail"}, payload: `{"topic":"mail"}`},
		"JSON body":        {args: []string{"mail", `{ "a": [1.0,  2] }`}, payload: `{"topic":"mail","body":{ "a": [1.0,  2] }}`},
		"text body":        {args: []string{"mail", `say "hi"`}, payload: `{"topic":"mail","body":"say \"hi\""}`},
		"body from stdin":  {args: []string{"mail", "-"}, stdin: "null", payload: `{"topic":"mail","body":null}`},
		"delay in seconds": {args: []string{"mail", "--delay", "1.10"}, payload: `{"topic":"mail","delay":1.10}`},
		"delay with unit":  {args: []string{"mail", "--delay", "1m30s"}, payload: `{"topic":"mail","delay":"1m30s"}`},
		"at":               {args: []string{"mail", "--at", "2030-01-31T08:00:00Z"}, payload: `{"topic":"mail","at":"2030-01-31T08:00:00Z"}`},
		"at in seconds":    {args: []string{"mail", "--at", "1893456000"}, payload: `{"topic":"mail","at":1893456000}`},
		"everything": {
			args: []string{
				"mail.eu", "1", "--id", "a b", "--ttr", "0", "--max-attempts", "0", "--backoff", "1s,5,1m", "--expires", "1h", "--replace",
			},
			subject: "dq.push.mail.eu",
			payload: `{"id":"a b","topic":"mail.eu","ttr":0,"max_attempts":0,"backoff":["1s",5,"1m"],"expires":"1h","on_duplicate":"replace","body":1}`,
		},
		"headers": {
			args: []string{"mail", "-H", "a=1", "-H", "b=x=y"}, payload: `{"topic":"mail"}`,
			headers: map[string]string{"a": "1", "b": "x=y"},
		},
		"topic that is no subject": {args: []string{"a b"}, subject: "dq.push", payload: `{"topic":"a b"}`},
		"raw": {
			args: []string{
				"mail", "-", "--raw", "--id", "i", "--delay", "5", "--ttr", "1m", "--max-attempts", "3", "--backoff", "1s,5", "--expires", "9",
				"--replace", "-H", "a=1",
			},
			stdin: "\xff\x00", payload: "\xff\x00",
			headers: map[string]string{
				"Dq-Topic": "mail", "Dq-Id": "i", "Dq-Delay": "5", "Dq-Ttr": "1m", "Dq-Max-Attempts": "3", "Dq-Backoff": "1s,5",
				"Dq-Expires": "9", "Dq-On-Duplicate": "replace", "a": "1",
			},
		},
		"raw at": {args: []string{"mail", "x", "--raw", "--at", "7"}, payload: "x", headers: map[string]string{"Dq-Topic": "mail", "Dq-At": "7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			msg, out, err := pushed(t, fine, call{stdin: test.stdin}, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if want := "dq.push.mail"; test.subject == "" && msg.Subject != want || test.subject != "" && msg.Subject != test.subject {
				t.Errorf("subject %s", msg.Subject)
			}
			if string(msg.Data) != test.payload {
				t.Errorf("payload %s\nwant    %s", msg.Data, test.payload)
			}
			if len(msg.Header) != len(test.headers) {
				t.Errorf("headers %v", msg.Header)
			}
			for name, want := range test.headers {
				if got := msg.Header.Get(name); got != want {
					t.Errorf("header %s is %q, want %q", name, got, want)
				}
			}
			if out != "pushed a, due now\n" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

func TestPushUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"exclude each other": {"mail", "--delay", "1", "--at", "1"},
		`--delay "soon"`:     {"mail", "--delay", "soon"},
		`--ttr "1 m"`:        {"mail", "--ttr", "1 m"},
		`--backoff "x"`:      {"mail", "--backoff", "1,x"},
		`--at "tomorrow"`:    {"mail", "--at", "tomorrow"},
		`--header "a"`:       {"mail", "-H", "a"},
		"the bridge's own":   {"mail", "-H", "dq-delay=1"},
		"not UTF-8":          {"mail", "\xff"},
	} {
		var out screen
		if err := (call{}).run(t.Context(), &out, append([]string{"push"}, args...)...); !IsUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v lacks %q, or is none of usage", args, err, want)
		}
	}
}

func TestPushAnswers(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(30 * time.Second).UTC().Format(time.RFC3339Nano)
	for name, test := range map[string]struct {
		answer    string
		args      []string
		out, fail string
	}{
		"later":     {answer: `{"code":200,"data":{"id":"a","due_at":"` + soon + `"}}`, out: "pushed a, due 2"},
		"duplicate": {answer: `{"code":200,"data":{"id":"a","due_at":"` + soon + `","duplicate":true,"state":"dead"}}`, out: "already stored: a is dead, due "},
		"replaced":  {answer: `{"code":200,"data":{"id":"a","due_at":"` + soon + `","duplicate":true,"replaced":true}}`, out: "replaced a, due "},
		"stream":    {answer: `{"stream":"S","seq":7}`, out: "stored as message 7 of stream S"},
		"json":      {answer: fine, args: []string{"--json"}, out: fine + "\n"},
		"refused":   {answer: `{"code":400,"message":"delay: no","data":null}`, fail: "400: delay: no"},
		"json refused": {
			answer: `{"code":400,"message":"no","data":null}`, args: []string{"--json"},
			out: `{"code":400,"message":"no","data":null}` + "\n", fail: "400: no",
		},
		"nonsense": {answer: `hello`, fail: "not from a bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, out, err := pushed(t, test.answer, call{}, append([]string{"mail"}, test.args...)...)
			if !strings.Contains(out, test.out) {
				t.Errorf("printed %q, want %q", out, test.out)
			}
			if (err != nil) != (test.fail != "") || err != nil && !strings.Contains(err.Error(), test.fail) {
				t.Errorf("error %v, want %q", err, test.fail)
			}
			if IsUsage(err) {
				t.Error("an answer is no usage error")
			}
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.Local)
	for left, want := range map[time.Duration]string{
		-time.Second:                          "due now",
		0:                                     "due now",
		250*time.Millisecond + 1:              "(in 250ms)",
		29*time.Second + 998*time.Millisecond: "(in 30s)",
		90*time.Second + 400*time.Millisecond: "(in 1m30s)",
		2 * time.Minute:                       "(in 2m)",
		time.Hour:                             "(in 1h)",
		time.Hour + time.Second:               "(in 1h0m1s)",
	} {
		if got := due(now.Add(left), now); !strings.HasSuffix(got, want) || left > 0 && !strings.HasPrefix(got, "due 2030-01-31T0") {
			t.Errorf("%v: %s", left, got)
		}
	}
}

func TestPushToNobody(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	c := call{vars: map[string]string{"DQ_NATS_URL": server.URL(), "DQ_PREFIX": "other"}}
	var out screen
	err := c.run(t.Context(), &out, "push", "mail")
	if want := "no bridge answers under the prefix \"other\" at (redacted): is it running?"; err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	server.Shutdown()
	err = c.run(t.Context(), &out, "push", "mail")
	if err == nil || !strings.Contains(err.Error(), "connect to NATS at (redacted)") {
		t.Errorf("error %v", err)
	}
	err = c.run(t.Context(), &out, "push", "mail", "--nats", "nats://user:secret@host:x")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestPushTimesOut(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	nc := server.Connect()
	if _, err := nc.SubscribeSync("dq.push.>"); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var out screen
	err := (call{}).run(t.Context(), &out, "push", "mail", "--nats", server.URL(), "--timeout", "50ms")
	if err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("error %v", err)
	}
}
