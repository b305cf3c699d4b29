package bridge

import (
	"strings"
	"testing"
)

func BenchmarkDecodePush(b *testing.B) {
	for name, data := range map[string]string{
		"job":   benchJob,
		"batch": "[" + strings.Repeat(benchJob+",", 99) + benchJob + "]",
	} {
		b.Run(name, func(b *testing.B) {
			payload := []byte(data)
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if jobs, _, f := decodePush("", nil, payload, testLimits()); f != nil || jobs[0].Fault != nil {
					b.Fatal(f, jobs)
				}
			}
		})
	}
}

const benchJob = `{"id":"0195f9a2-7b31-7c3e-9d55-0123456789ab","topic":"mail.eu","delay":30,"ttr":60,"body":` +
	`{"to":"someone@example.com","template":"welcome","n":[1,2,3],"note":"this is what makes 100 bytes"}}`

func BenchmarkPushReply(b *testing.B) {
	reply := envelope{Code: 200, Data: pushReply{ID: "0195f9a2-7b31-7c3e-9d55-0123456789ab"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reply.encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHeaders(b *testing.B) {
	block := []byte("Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Tenant: blue\r\n")
	b.ReportAllocs()
	for b.Loop() {
		if len(decodeHeaders(block)) != 2 {
			b.Fatal("lost a header")
		}
	}
}
