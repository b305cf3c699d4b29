package bridge

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dqbridge/dqbridge/delay"
)

func TestDecodeSettle(t *testing.T) {
	t.Parallel()
	delivered := `{"id":"m","topic":"t","delay":30,"ttr":"x","body":{},"attempt":2,"reason":5,"due_at":"","ID":"n"}`
	for name, row := range map[string]struct {
		verb, payload string
		want          settleItem
		text          string // of the fault
	}{
		"plain":                     {verbFinish, `m n`, settleItem{ID: "m n"}, ""},
		"plain that begins well":    {verbFinish, `m"{[`, settleItem{ID: `m"{[`}, ""},
		"plain with a newline":      {verbFinish, "m\n", settleItem{}, "id m\\u000a holds U+000A"},
		"plain, no UTF-8":           {verbFinish, "m\xff", settleItem{}, `id m\xff is not valid UTF-8`},
		"plain, blank":              {verbFinish, ` {"id":"m"}`, settleItem{}, "begins or ends with a blank"},
		"string":                    {verbFinish, `"\u006d"`, settleItem{ID: "m"}, ""},
		"object":                    {verbTouch, ` `[1:] + `{"id":"m"}` + "\n", settleItem{ID: "m"}, ""},
		"job_id":                    {verbFinish, `{"job_id":"m"}`, settleItem{ID: "m"}, ""},
		"both, the same":            {verbFinish, `{"job_id":"m","id":"\u006d"}`, settleItem{ID: "m"}, ""},
		"both, not the same":        {verbFinish, `{"job_id":"m","id":"n"}`, settleItem{}, `job_id is "m", allowed is the same as id`},
		"both, one null":            {verbFinish, `{"job_id":"m","id":null}`, settleItem{ID: "m"}, ""},
		"no id":                     {verbFinish, `{}`, settleItem{}, "id is missing"},
		"null id":                   {verbFinish, `{"id":null}`, settleItem{}, "id is missing"},
		"number":                    {verbFinish, `{"id":5}`, settleItem{}, "id is 5, allowed is a string"},
		"bad job_id":                {verbFinish, `{"job_id":" m"}`, settleItem{}, `job_id " m" begins`},
		"long id":                   {verbFinish, `{"id":"` + strings.Repeat("i", 300) + `"}`, settleItem{}, "id "},
		"twice":                     {verbFinish, `{"id":"m","id":"m"}`, settleItem{}, "id is given twice"},
		"unknown":                   {verbFinish, `{"id":"m","ID":"m"}`, settleItem{}, "field ID is unknown, allowed are id, job_id"},
		"delay with finish":         {verbFinish, `{"id":"m","delay":5}`, settleItem{}, "field delay is unknown"},
		"delay with touch":          {verbTouch, `{"id":"m","delay":5}`, settleItem{}, "field delay is unknown"},
		"delay":                     {verbRelease, `{"id":"m","delay":1.5}`, settleItem{ID: "m", Delay: 1500 * time.Millisecond, HasDelay: true}, ""},
		"delay 0":                   {verbRelease, `{"id":"m","delay":0}`, settleItem{ID: "m", HasDelay: true}, ""},
		"delay negative":            {verbRelease, `{"id":"m","delay":"-5s"}`, settleItem{ID: "m", HasDelay: true}, ""},
		"delay null":                {verbRelease, `{"id":"m","delay":null}`, settleItem{ID: "m"}, ""},
		"delay wrong":               {verbRelease, `{"id":"m","delay":"soon"}`, settleItem{}, `delay is "soon"`},
		"delay too long":            {verbRelease, `{"id":"m","delay":1e9}`, settleItem{}, `delay is 1e9, allowed is up to`},
		"reason":                    {verbBury, `{"id":"m","reason":" bad\n\u202epayload "}`, settleItem{ID: "m", Reason: "bad  payload"}, ""},
		"reason number":             {verbBury, `{"id":"m","reason":5}`, settleItem{}, "reason is 5"},
		"reason with release":       {verbRelease, `{"id":"m","reason":"x"}`, settleItem{}, "field reason is unknown, allowed are id, job_id, delay"},
		"delivered, finish":         {verbFinish, delivered, settleItem{ID: "m", Attempt: 2}, ""},
		"delivered, release":        {verbRelease, delivered, settleItem{ID: "m", Attempt: 2}, ""},
		"delivered, bury":           {verbBury, delivered, settleItem{ID: "m", Attempt: 2}, ""},
		"attempt null":              {verbFinish, `{"id":"m","attempt":null,"topic":"t"}`, settleItem{}, "field topic is unknown"},
		"attempt 0":                 {verbFinish, `{"id":"m","attempt":0}`, settleItem{}, "attempt is 0"},
		"attempt 1.5":               {verbFinish, `{"id":"m","attempt":1.5}`, settleItem{}, "attempt is 1.5"},
		"delivered with another id": {verbFinish, `{"id":"m","job_id":"n","attempt":1}`, settleItem{}, "job_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, batch, f := decodeSettle(row.verb, []byte(row.payload), testLimits())
			if f != nil || batch || len(items) != 1 {
				t.Fatalf("got %+v, batch %v, fault %v", items, batch, f)
			}
			got := items[0]
			if want := strings.TrimSpace(row.payload); strings.TrimSpace(string(got.Raw)) != want {
				t.Errorf("raw is %q instead of %q", got.Raw, want)
			}
			if row.text != "" {
				checkFault(t, got.Fault, 400, row.text)
				return
			}
			got.Raw = nil
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeSettleWhole(t *testing.T) {
	t.Parallel()
	for payload, row := range map[string]struct {
		code int
		text string
	}{
		"":                     {400, "payload is empty"},
		"[]":                   {400, "array is empty"},
		`["m"`:                 {400, "ends too early"},
		`"m" x`:                {400, "goes on after"},
		`{"id":"m"}{"id":"n"}`: {400, "goes on after"},
		"{\"id\":\"m\xff\"}":   {400, "invalid UTF-8"},
		"[" + strings.Repeat(`"m",`, 1000) + `"m"]`: {413, "array has 1001"},
		strings.Repeat("[", 100_000):                {400, "not valid JSON"},
	} {
		t.Run(excerpt(payload), func(t *testing.T) {
			t.Parallel()
			items, _, f := decodeSettle(verbFinish, []byte(payload), testLimits())
			checkFault(t, f, row.code, row.text)
			if items != nil {
				t.Errorf("has items %+v", items)
			}
		})
	}
}

func TestDecodeSettleBatch(t *testing.T) {
	t.Parallel()
	elements := []string{`"m"`, `{"id":"n"}`, `5`, `["o"]`, `""`, `null`, `{"id":"p","x":1}`}
	items, batch, f := decodeSettle(verbFinish, []byte("["+strings.Join(elements, " , ")+"]"), testLimits())
	if f != nil || !batch || len(items) != len(elements) {
		t.Fatalf("got %+v, batch %v, fault %v", items, batch, f)
	}
	for i, want := range []string{"m", "n", "", "", "", "", ""} {
		if (items[i].Fault == nil) != (want != "") || want != "" && items[i].ID != want || string(items[i].Raw) != elements[i] {
			t.Errorf("%d: got %+v, raw %s", i, items[i], items[i].Raw)
		}
	}
}

func TestDecodeAck(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for payload, row := range map[string]struct {
		want ackVerb
		text string
	}{
		"":                                  {ackVerb{Verb: verbFinish}, ""},
		"+ACK":                              {ackVerb{Verb: verbFinish}, ""},
		"-NAK":                              {ackVerb{Verb: verbRelease}, ""},
		"-NAK  ":                            {ackVerb{Verb: verbRelease}, ""},
		"-NAK {}":                           {ackVerb{Verb: verbRelease}, ""},
		`-NAK {"delay": null}`:              {ackVerb{Verb: verbRelease}, ""},
		`-NAK {"delay": 1000001}`:           {ackVerb{Verb: verbRelease, Delay: 2 * ms, HasDelay: true}, ""},
		`-NAK {"delay": 1.5e9}`:             {ackVerb{Verb: verbRelease, Delay: 1500 * ms, HasDelay: true}, ""},
		`-NAK {"delay": 0}`:                 {ackVerb{Verb: verbRelease, HasDelay: true}, ""},
		`-NAK {"delay": -5}`:                {ackVerb{Verb: verbRelease, HasDelay: true}, ""},
		"+WPI":                              {ackVerb{Verb: verbTouch}, ""},
		"+TERM":                             {ackVerb{Verb: verbBury}, ""},
		"+TERM bad input":                   {ackVerb{Verb: verbBury, Reason: "bad input"}, ""},
		"+TERM  a\r\nb\xff\u200b ":          {ackVerb{Verb: verbBury, Reason: "a  b"}, ""},
		"+TERM " + strings.Repeat("ü", 150): {ackVerb{Verb: verbBury, Reason: strings.Repeat("ü", 100)}, ""},
		`-NAK {"delay": 1e30}`:              {ackVerb{}, "delay is 1e30, allowed is a number of nanoseconds, up to"},
		`-NAK {"delay": "5s"}`:              {ackVerb{}, `delay is "5s"`},
		`-NAK {"delay": 1,"delay":2}`:       {ackVerb{}, "delay is given twice"},
		`-NAK {"dealy": 1}`:                 {ackVerb{}, "field dealy is unknown"},
		`-NAK {"delay": 1} x`:               {ackVerb{}, "goes on after"},
		`-NAK {"delay": 1`:                  {ackVerb{}, "ends too early"},
		`-NAK [1]`:                          {ackVerb{}, "ack payload is -NAK [1]"},
		`-NAK{"delay": 1}`:                  {ackVerb{}, "ack payload is -NAK{"},
		"+ack":                              {ackVerb{}, "ack payload is +ack, allowed is empty, +ACK"},
		"+ACK ":                             {ackVerb{}, "ack payload"},
		"+NXT":                              {ackVerb{}, "ack payload"},
		"+TERMx":                            {ackVerb{}, "ack payload"},
		"\x00":                              {ackVerb{}, `ack payload is \u0000`},
	} {
		t.Run(excerpt(payload), func(t *testing.T) {
			t.Parallel()
			got, f := decodeAck([]byte(payload), testLimits())
			if row.text != "" {
				checkFault(t, f, 400, row.text)
			} else if f != nil || got != row.want {
				t.Errorf("got %+v, fault %v", got, f)
			}
		})
	}
}

func FuzzDecodeSettle(f *testing.F) {
	for _, seed := range []string{"m", `"m"`, `{"id":"m","delay":5}`, `[{"job_id":"m"},"n",5]`, `{"id":"m","attempt":1,"x":[{}]}`} {
		for _, verb := range []string{verbFinish, verbRelease, verbBury} {
			f.Add(verb, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, verb string, data []byte) {
		items, _, whole := decodeSettle(verb, data, testLimits())
		if whole != nil && items != nil || whole == nil && len(items) == 0 {
			t.Fatalf("fault %v beside items %v", whole, items)
		}
		for _, item := range items {
			if !bytes.Contains(data, item.Raw) {
				t.Fatalf("raw %q is not of the payload", item.Raw)
			}
			if item.Fault != nil {
				continue
			}
			if err := delay.CheckID(item.ID); err != nil {
				t.Fatalf("id %q: %v", item.ID, err)
			}
			checkDelay(t, item.Delay, item.HasDelay)
			checkReason(t, item.Reason)
			// The id alone as JSON means the same job.
			quoted, _ := json.Marshal(item.ID)
			again, _, _ := decodeSettle(verb, quoted, testLimits())
			if len(again) != 1 || again[0].ID != item.ID {
				t.Fatalf("%s became %+v", quoted, again)
			}
		}
	})
}

func FuzzDecodeAck(f *testing.F) {
	for _, seed := range []string{"", "+ACK", "-NAK", `-NAK {"delay": 5}`, "+WPI", "+TERM", "+TERM why"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		verb, fail := decodeAck(data, testLimits())
		if fail != nil {
			return
		}
		checkDelay(t, verb.Delay, verb.HasDelay)
		checkReason(t, verb.Reason)
		if verb.Reason == "" {
			return
		}
		again, _ := decodeAck([]byte("+TERM "+verb.Reason), testLimits())
		if again != verb {
			t.Fatalf("%+v became %+v", verb, again)
		}
	})
}

func checkDelay(t *testing.T, d time.Duration, has bool) {
	t.Helper()
	if d < 0 || d > testLimits().MaxDelay || d%time.Millisecond != 0 || d > 0 && !has {
		t.Fatalf("delay %v", d)
	}
}

func checkReason(t *testing.T, reason string) {
	t.Helper()
	bad := strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) })
	if bad || len(reason) > maxReasonBytes || !utf8.ValidString(reason) {
		t.Fatalf("reason %q", reason)
	}
}
