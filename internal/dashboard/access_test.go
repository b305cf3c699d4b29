package dashboard_test

import (
	"testing"

	"github.com/dqbridge/dqbridge/internal/client"
)

// A guarded bridge shows nothing without its token, and the token stays in the tab.
func (b *browser) testToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	r.push(client.Job{Topic: "hidden", ID: "one", Delay: "1h"})
	p := b.open(t, desk, r.addr, "")
	p.expect("401")
	p.sees("Token wanted")
	p.lacks("hidden")
	p.shot("token")
	p.key("\x1b")
	p.key("\x1b")
	p.sees("Token wanted") // it cannot be passed by
	p.types("dialog input", "wrong")
	p.button("Open")
	p.sees("The bridge refused that token.")
	p.lacks("hidden")
	p.types("dialog input", "not a token ☃")
	p.button("Open")
	p.sees("no white space")
	p.types("dialog input", secret+"\r")
	p.sees("hidden")
	if !value[bool](p, `sessionStorage.length === 1 && localStorage.length === 0 && document.cookie === ""`) {
		t.Error("the token is kept elsewhere than in the tab")
	}
	value[chromeNull](p, "location.reload()")
	p.sees("hidden")
	p.lacks("Read-only")
	p.button("Forget the token")
	p.sees("Token wanted")
	p.lacks("hidden")
}

// Without a token nothing can be changed, and the page says why.
func (b *browser) testReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.push(client.Job{Topic: "mail", ID: "one", Delay: "1h"}, client.Job{Topic: "mail", ID: "two", Delay: "1h"})
	r.bury("x", "two")
	p := b.open(t, desk, r.addr, "#/jobs/one")
	for _, hash := range []string{"#/jobs/one", "#/topics/mail", "#/dead"} {
		p.goes(hash)
		p.sees("Read-only. The bridge has no token. Set DQ_HTTP_TOKEN where it runs")
		p.holds(`document.querySelectorAll(".actions button").length > 0`)
		p.holds(`document.querySelectorAll(".actions button:enabled").length === 0`)
	}
	p.goes("#/jobs/one")
	p.sees("Facts")
	p.shot("read-only")
}
