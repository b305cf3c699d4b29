package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestPushArray(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const ok = `{"code":200,"message":"","data":{"id":%q,"due_at":%q,"duplicate":false}}`
	at := time.Now().Add(time.Hour).UTC().Format(wireTime)
	job := func(id string) string { return fmt.Sprintf(`{"id":%q,"topic":"t","at":%q}`, id, at) }
	good := func(id string) string { return fmt.Sprintf(ok, id, at) }
	for name, row := range map[string]struct {
		msg  *nats.Msg
		code int
		want []string // the envelopes; a text without a brace is part of a failed one's message
	}{
		"of one":   {r.msg("push", `[`+job("a")+`]`), 200, []string{good("a")}},
		"of three": {r.msg("push", ` [ `+job("b")+`, `+job("c")+` ,`+job("d")+`]`), 200, []string{good("b"), good("c"), good("d")}},
		"one bad": {
			r.msg("push", `[`+job("e")+`,{"id":"f","topic":"a b"},`+job("g")+`]`), 207, []string{good("e"), "topic", good("g")},
		},
		"all bad": {r.msg("push", `[{"topic":""},7,{}]`), 207, []string{"topic", "job is 7", "topic"}},
		"under a message id": {
			r.msg("push", fmt.Sprintf(`[{"topic":"t","at":%q},`+job("own")+`,{"topic":"t","at":%q}]`, at, at), "Nats-Msg-Id: m"),
			200,
			[]string{good("m-0"), good("own"), good("m-2")},
		},
		"one topic": {
			r.msg("push.mail", fmt.Sprintf(`[{"id":"h","at":%q},{"id":"i","topic":"sms"}]`, at)), 207, []string{good("h"), "topic"},
		},
		"an id twice": {
			r.msg("push", `[`+job("j")+`,`+job("j")+`,{"id":"j","topic":"u"}]`), 207, []string{
				good("j"), fmt.Sprintf(`{"code":200,"message":"","data":{"id":"j","due_at":%q,"duplicate":true,"state":"delayed"}}`, at), "t",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := r.ask(t, row.msg)
			var envelopes []json.RawMessage
			if err := json.Unmarshal(answer.Data, &envelopes); err != nil || answer.Code != row.code || len(envelopes) != len(row.want) {
				t.Fatalf("replied %s (%v)", answer.raw, err)
			}
			for i, want := range row.want {
				if strings.HasPrefix(want, "{") {
					if got := string(envelopes[i]); got != want {
						t.Errorf("%d: %s instead of %s", i, got, want)
					}
					continue
				}
				var e reply
				if err := json.Unmarshal(envelopes[i], &e); err != nil || e.Code < 400 || !strings.Contains(e.Message, want) {
					t.Errorf("%d: %s lacks %q (%v)", i, envelopes[i], want, err)
				}
			}
		})
	}
}

func TestPushArrayOfThousand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.history.allowRepeats() // a batch that takes longer than half its lease, on a busy machine, is given back
	w := r.handle(t, "t", func(d *delivery) { _ = d.Ack() })
	var jobs []string
	for i := range 1000 {
		jobs = append(jobs, fmt.Sprintf(`{"id":"job-%d","topic":"t"}`, i))
	}
	answer := r.ask(t, r.msg("push", `[`+strings.Join(jobs, ",")+`]`))
	var envelopes []struct {
		Code int
		Data pushed
	}
	if err := json.Unmarshal(answer.Data, &envelopes); err != nil || answer.Code != 200 || len(envelopes) != 1000 {
		t.Fatalf("replied %.500s (%v)", answer.raw, err)
	}
	for i, e := range envelopes {
		if e.Code != 200 || e.Data.ID != fmt.Sprintf("job-%d", i) || e.Data.Duplicate {
			t.Fatalf("%d: %+v", i, e)
		}
	}
	w.await(t, 1000)
	r.emptied(t)
	if n := w.jobs(); n != 1000 {
		t.Errorf("%d jobs were delivered", n)
	}
}
