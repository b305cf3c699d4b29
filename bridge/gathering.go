package bridge

import (
	"net/http"
	"strconv"
	"sync"
)

// gathering collects the answers to the elements of an array, in their order, and sends them as one.
type gathering struct {
	answers  *answers
	question question

	// mu guards the answers so far, and how many are left.
	mu   sync.Mutex
	list []envelope
	left int
}

func newGathering(a *answers, q question, n int) *gathering {
	return &gathering{answers: a, question: q, list: make([]envelope, n), left: n}
}

// element gives what takes the answer to an element, once; raw are the element's own bytes. Where nobody waits for the
// whole, the element's error is announced by itself.
func (g *gathering) element(i int, raw []byte) func(envelope) {
	return func(e envelope) {
		waits := g.question.Reply() != ""
		if !waits && e.Code != http.StatusOK {
			g.answers.reply(g.question, e, i, raw)
		}
		if all, done := g.add(i, e); done && waits {
			g.answers.reply(g.question, all, -1, nil)
		}
	}
}

// add gives the answer to the whole with the last element.
func (g *gathering) add(i int, e envelope) (envelope, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list[i] = e
	g.left--
	if g.left > 0 {
		return envelope{}, false
	}
	all := envelope{Code: http.StatusOK, Data: g.list}
	failed := 0
	for _, e := range g.list {
		if e.Code != http.StatusOK {
			failed++
		}
	}
	if failed > 0 {
		all.Code = http.StatusMultiStatus
		all.Message = strconv.Itoa(failed) + " of " + strconv.Itoa(len(g.list)) + " failed"
	}
	return all, true
}
