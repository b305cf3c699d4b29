package client

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestValue(t *testing.T) {
	t.Parallel()
	for value, want := range map[Value]string{
		"1": `1`, "1.10": `1.10`, "-5": `-5`, "1e3": `1e3`, "1m30s": `"1m30s"`, ".5": `".5"`, "true": `"true"`, "é": `"é"`,
	} {
		data, err := json.Marshal(value)
		if err != nil || string(data) != want {
			t.Errorf("%q is %s (%v), want %s", value, data, err, want)
		}
	}
}

func TestParseDelivery(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ payload, want string }{
		"JSON push":                 {`{"id":"a","topic":"t","body":{"x": 1.0}}`, `{"x": 1.0}`},
		"JSON push, null":           {`{"id":"a","body":null}`, `null`},
		"header form":               {"\xff", "\xff"},
		"header form, a job inside": {`{"id":"b","body":1}`, `{"id":"b","body":1}`},
	} {
		d, err := ParseDelivery(&nats.Msg{Data: []byte(test.payload), Header: nats.Header{
			HeaderID: {"a"}, HeaderTopic: {"t"}, HeaderAttempt: {"2"}, HeaderDueAt: {"2030-01-31T08:00:00.000Z"},
		}})
		if err != nil || string(d.Body) != test.want || d.ID != "a" || d.Topic != "t" || d.Attempt != 2 || d.DueAt.Year() != 2030 {
			t.Errorf("%s: %+v (%v), body %s", name, d, err, d.Body)
		}
	}
	for _, missing := range []string{HeaderAttempt, HeaderDueAt} {
		header := nats.Header{HeaderAttempt: {"2"}, HeaderDueAt: {"2030-01-31T08:00:00.000Z"}}
		header.Del(missing)
		if _, err := ParseDelivery(&nats.Msg{Header: header}); err == nil {
			t.Errorf("no error without %s", missing)
		}
	}
}

func TestAckNeedsASubject(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, "dq").Ack(t.Context(), &nats.Msg{}); err == nil {
		t.Error("no error")
	}
}
