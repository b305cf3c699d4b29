package bridge

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestEnvelope(t *testing.T) {
	t.Parallel()
	due := time.Date(2030, 1, 31, 9, 0, 0, 1_500_000, time.FixedZone("", 3600))
	for want, e := range map[string]envelope{
		`{"code":200,"message":"","data":null}`:                {Code: 200},
		`{"code":400,"message":"a <b> & \"c\" ü","data":null}`: (&fault{400, `a <b> & "c" ü`, reasonValue}).envelope(),
		`{"code":503,"message":"x","data":{"id":"<&>"}}`:       {503, "x", map[string]string{"id": "<&>"}, reasonRedis},
		`{"code":200,"message":"","data":{"finished":1}}`:      {Code: 200, Data: map[string]int{"finished": 1}},
		`{"code":207,"message":"","data":[{"code":200,"message":"","data":null},{"code":400,"message":"x","data":null}]}`: {
			Code: 207, Data: []envelope{{Code: 200}, {Code: 400, Message: "x"}},
		},
		`{"code":200,"message":"","data":{"id":"a<","due_at":"2030-01-31T08:00:00.001Z","duplicate":false}}`: {
			Code: 200, Data: pushReply{ID: "a<", DueAt: due},
		},
		`{"code":200,"message":"","data":{"id":"a","due_at":"2030-01-31T08:00:00.001Z","duplicate":true,"replaced":true,"state":"dead"}}`: {
			Code: 200, Data: pushReply{ID: "a", DueAt: due, Duplicate: true, Replaced: true, State: "dead"},
		},
	} {
		got, err := e.encode()
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v instead of %s", got, err, want)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON", got)
		}
	}
	if _, err := (envelope{Data: math.NaN()}).encode(); err == nil {
		t.Error("NaN has become JSON")
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        `""`,
		"a b":                     "a b",
		"a\x00\n\u202e\U000e0001": `a\u0000\u000a\u202e\ue0001`,
		"\xff\xc3":                `\xff\xc3`,
		"\ufffd":                  "\ufffd",
		strings.Repeat("ü", 100):  strings.Repeat("ü", 30) + "...",
		strings.Repeat("x", 60):   strings.Repeat("x", 60),
	} {
		if got := excerpt(text); got != want {
			t.Errorf("%q: got %s instead of %s", text, got, want)
		}
	}
}
