package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

// browser is one Chromium for all tests; each has tabs in profiles of their own.
type browser struct{ ctx context.Context }

// newBrowser starts it.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := testenv.Program(t, "chromium", "make chromium installs it")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.DisableGPU,
		// Whatever is not of this machine is not found.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has none
	}
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancelBrowser := chromedp.NewContext(allocator)
	t.Cleanup(cancelBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &browser{ctx}
}

// tab is one page. At the end of its test nothing bad must have been seen in it.
type tab struct {
	t    *testing.T
	ctx  context.Context
	home string

	mu     sync.Mutex
	faults []string
	// expected are texts of the faults that a test brings about.
	expected []string
}

// view is how a tab is looked at.
type view struct {
	width, height int64
	scheme        string
}

var (
	desk  = view{1280, 860, "light"}
	night = view{1280, 860, "dark"}
	phone = view{360, 740, "light"}
)

// open gives a new tab with the dashboard at an address.
func (b *browser) open(t *testing.T, v view, addr, hash string) *tab {
	t.Helper()
	p := &tab{t: t, home: "http://" + addr + "/"}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.heard))
	t.Cleanup(cancel)
	p.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // without a limit, which would end the tab
		t.Fatal(err)
	}
	t.Cleanup(p.check)
	p.look(v)
	p.do(chromedp.Navigate(p.home + hash))
	return p
}

// look changes the size of the tab, and whether it is dark.
func (p *tab) look(v view) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(v.width, v.height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
		})
		return err
	}))
}

// heard notes what must not be: errors, violations of the policy, which the log has too, and requests to others.
func (p *tab) heard(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, p.home) && !strings.HasPrefix(url, "data:") {
			p.fault("request to " + url)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type != "log" && e.Type != "debug" && e.Type != "info" {
			p.fault(fmt.Sprintf("console %s: %v", e.Type, e.Args))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.fault("exception: " + text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.fault(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

func (p *tab) fault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

// expect allows faults with this text.
func (p *tab) expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

func (p *tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		if !slices.ContainsFunc(p.expected, func(text string) bool { return strings.Contains(fault, text) }) {
			p.t.Errorf("the browser says: %s", fault)
		}
	}
}

// do carries out steps, and says what the page shows where one fails.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%v\nthe page shows:\n%s", err, p.text())
	}
}

// value gives the value of an expression.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is what the page shows.
func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// holds waits until a condition holds in the page.
func (p *tab) holds(condition string) {
	p.t.Helper()
	p.until(func() bool { return value[bool](p, "Boolean("+condition+")") }, condition)
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(func() bool { return strings.Contains(p.text(), text) }, "it shows "+text)
}

// lacks waits until it does not.
func (p *tab) lacks(text string) {
	p.t.Helper()
	p.until(func() bool { return !strings.Contains(p.text(), text) }, "it does not show "+text)
}

func (p *tab) until(cond func() bool, what string) {
	p.t.Helper()
	every := time.NewTicker(30 * time.Millisecond)
	defer every.Stop()
	for deadline := time.Now().Add(patience); !cond(); <-every.C {
		if time.Now().After(deadline) {
			p.shot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
			p.t.Fatalf("not within %v: %s\nthe page shows:\n%s", patience, what, p.text())
		}
	}
}

// click clicks on the first element that a CSS selector finds, once it can be clicked on.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.holds("document.querySelector(" + strconv.Quote(selector) + ")?.matches(':enabled, a')")
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// button clicks on the button with this text.
func (p *tab) button(text string) {
	p.t.Helper()
	p.holds(buttonWith(text) + "?.matches(':enabled')")
	p.do(chromedp.Click(chromedp.JSPath(buttonWith(text))))
}

// buttonWith finds a button, one of an open dialog first.
func buttonWith(text string) string {
	return `[...document.querySelectorAll("dialog button"), ...document.querySelectorAll("button")].find((b) => b.innerText.trim() === ` +
		strconv.Quote(text) + `)`
}

// confirms answers the open dialog, whose title is given, with its own word.
func (p *tab) confirms(title string) {
	p.t.Helper()
	p.holds(`document.querySelector("dialog[open] h2")?.innerText === ` + strconv.Quote(title))
	p.click(`dialog button[type="submit"]`)
	p.holds(`!document.querySelector("dialog")`)
}

// key presses a key, wherever the focus is. What a key types goes with its press, as from a keyboard: the page may keep it
// from being typed.
func (p *tab) key(key string) {
	p.t.Helper()
	if key < " " {
		p.do(chromedp.KeyEvent(key))
		return
	}
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: key, Text: key})
		if err == nil {
			_, err = chromedp.Call(ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyUp", Key: key})
		}
		return err
	}))
}

// types puts a text into a field in place of what it has.
func (p *tab) types(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"))
		return err
	}), chromedp.KeyEvent(text))
}

// goes changes the address, as a link does.
func (p *tab) goes(hash string) {
	p.t.Helper()
	value[string](p, "location.hash = "+strconv.Quote(hash))
}

// fits wants that the page is not wider than the screen.
func (p *tab) fits() {
	p.t.Helper()
	if wide := value[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		p.t.Errorf("the page at %s is %d pixels wider than the screen", value[string](p, "location.hash"), wide)
	}
}

// shot makes a picture, where pictures are wanted.
func (p *tab) shot(name string) {
	if *shots == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600)
	}
	if err != nil {
		p.t.Errorf("picture %s: %v", name, err)
	}
}
