package dashboard_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/dqbridge/dqbridge/internal/client"
)

const markup = `<img src=x onerror="window.executed=1"><script>window.executed=1</script>`

// What comes from others is text, wherever it stands: nothing of it is executed.
func (b *browser) testMarkup(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	topic := `<svg/onload=alert(1)//&amp;"'` // as far as a topic can be markup
	r.push(
		client.Job{
			Topic: topic, ID: `<i onclick=alert(1)>id</i>`, Delay: "1h", Headers: nats.Header{"X-Html": {markup}},
			Body: []byte(`{"html":` + quoted(markup) + `,"big":12345678901234567890.10,"2":1,"1":2}`),
		},
		client.Job{Topic: "raw", ID: "html", Delay: "1h", Raw: true, Body: []byte("<!doctype html>" + markup)},
		client.Job{Topic: "raw", ID: "binary", Delay: "1h", Raw: true, Body: []byte{0, 1, 2, 0xff}},
	)
	r.bury(markup, `<i onclick=alert(1)>id</i>`)
	p := b.enter(t, desk, r.addr, "")
	p.sees(topic)
	p.click(`table.topics tbody th a`)
	p.sees("Topic " + topic)
	p.click("#state-dead")
	p.sees("buried: " + markup[:40])
	p.click(`table.jobs tbody th a`)
	p.sees(`Job <i onclick=alert(1)>id</i>`)
	p.sees(`"html": "<img src=x onerror=\"window.executed=1\"><script>window.executed=1</script>"`)
	p.sees(`"big": 12345678901234567890.10`) // as it was pushed, in its order
	p.holds(`/"2": 1,\s*"1": 2/.test(document.querySelector("pre.body").innerText)`)
	p.sees(markup)
	p.shot("job-html")
	p.button("Kick")
	p.sees(`<i onclick=alert(1)>id</i>`)
	p.shot("dialog-html")
	p.confirms("Kick it?")
	p.goes("#/jobs/html")
	p.sees("<!doctype html>" + markup)
	p.goes("#/jobs/binary")
	p.sees("AAEC/w==")
	p.sees("no text, in base64")
	p.goes("#/dead?topic=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.executed%3D1%22%3E")
	p.expect("400")
	p.sees("Refused:")
	p.goes("#/jobs/%E0%A4%A") // no address
	p.sees("Not found")
	if value[bool](p, "window.executed !== undefined") {
		t.Error("something was executed")
	}
}

func quoted(text string) string {
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// Long names are cut in the middle in tables, and whole on their pages.
func (b *browser) testLongNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, secret)
	id := "begin-" + strings.Repeat("x", 240) + "-end"
	topic := "start." + strings.Repeat("y", 180) + ".tail"
	r.push(client.Job{Topic: topic, ID: id, Delay: "1h", Body: []byte(`"` + strings.Repeat("long ", 2000) + `"`)})
	for _, v := range []view{desk, phone} {
		p := b.enter(t, v, r.addr, "")
		p.sees("start.")
		p.holds(`/^start\.y+…y+\.tail$/.test(document.querySelector("table.topics tbody th")?.innerText.trim())`)
		p.fits()
		p.shot("long-topics-" + name(v))
		p.click("table.topics tbody th a")
		p.sees(topic)
		p.holds(`/^begin-x+…x+-end$/.test(document.querySelector("table.jobs tbody th")?.innerText.trim())`)
		p.fits()
		p.shot("long-topic-" + name(v))
		p.click("table.jobs tbody th a")
		p.sees(id)
		p.sees(topic)
		p.fits()
		p.shot("long-job-" + name(v))
		p.button("Cancel")
		p.fits()
		p.shot("long-dialog-" + name(v))
		p.button("Leave it")
	}
	p := b.enter(t, desk, r.addr, "#/jobs/"+id)
	value[chromeNull](p, `Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } }) && null`)
	p.click(`[aria-label="Copy the id"]`)
	p.sees("Copied")
	if copied := value[string](p, "window.copied"); copied != id {
		t.Errorf("copied %q", copied)
	}
}

// name gives a word for a view, for the names of pictures.
func name(v view) string {
	switch v {
	case phone:
		return "phone"
	case night:
		return "dark"
	}
	return "desk"
}
