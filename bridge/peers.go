package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

const (
	// peersTimeout is how long another replica has to tell its figures.
	peersTimeout = 250 * time.Millisecond
	// maxQuestions bounds those of other replicas that wait; one more has no answer.
	maxQuestions = 64
	// peersVersion is what an answer begins with: another version's figures may mean something else.
	peersVersion = 1
)

// peers asks the other replicas what goes through them, and tells them what goes through this one.
type peers struct {
	link      *Link
	subjects  subjects
	figures   *figures
	questions chan *nats.Msg
	// others gives the owners of the other replicas that live.
	others func() []string
}

func newPeers(b *Bridge) *peers {
	return &peers{
		link: b.link, subjects: b.subjects, figures: b.metrics.figures, questions: make(chan *nats.Msg, maxQuestions),
		others: b.replicas.otherOwners,
	}
}

// peerQuestion asks for the figures of now of all topics and of some, or for the last hour of one or, with an empty name, of all.
type peerQuestion struct {
	Topics []string `json:"topics"`
	Hour   *string  `json:"hour"`
}

type peerAnswer struct {
	Version int    `json:"version"`
	All     flow   `json:"all"`
	Topics  []flow `json:"topics"`
	Hour    *hour  `json:"hour"`
}

func (p *peers) answer(q *peerQuestion) peerAnswer {
	a := peerAnswer{Version: peersVersion}
	if q.Hour != nil {
		h := p.figures.hourOf(*q.Hour)
		a.Hour = &h
		return a
	}
	a.All, a.Topics = p.figures.flows(q.Topics)
	return a
}

// asked takes the question of another replica. It is called by the handler of acks, so it does not wait.
func (p *peers) asked(msg *nats.Msg) {
	select {
	case p.questions <- msg:
	default: // who asked does without
	}
}

// run answers questions until ctx is over.
func (p *peers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-p.questions:
			p.reply(msg)
		}
	}
}

func (p *peers) reply(msg *nats.Msg) {
	var q peerQuestion
	if msg.Reply == "" || json.Unmarshal(msg.Data, &q) != nil || len(q.Topics) > maxLiveTopics {
		return
	}
	data, err := json.Marshal(p.answer(&q))
	if err == nil {
		_ = p.link.Publish(msg.Reply, data) // who asked does without
	}
}

// ask gives what all replicas say that live, this one first, and how many live. One that does not answer in time, or is of
// an earlier version, is left out.
func (p *peers) ask(ctx context.Context, q peerQuestion) ([]peerAnswer, int) {
	owners := p.others()
	answers := make([]peerAnswer, 1, len(owners)+1)
	answers[0] = p.answer(&q)
	data, err := json.Marshal(q)
	if err != nil { // it has only strings
		return answers, len(owners) + 1
	}
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, owner := range owners {
		asking.Go(func() {
			var a peerAnswer
			msg, err := p.link.RequestWithContext(ctx, p.subjects.note(owner, wordFigures), data)
			if err != nil || json.Unmarshal(msg.Data, &a) != nil || a.Version != peersVersion || !a.answers(&q) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
	}
	asking.Wait()
	return answers, len(owners) + 1
}

// answers reports whether an answer has all that was asked for.
func (a *peerAnswer) answers(q *peerQuestion) bool {
	if q.Hour == nil {
		return len(a.Topics) == len(q.Topics)
	}
	return a.Hour != nil && (!a.Hour.Kept || len(a.Hour.In) == pastMinutes && len(a.Hour.Out) == pastMinutes &&
		len(a.Hour.Finished) == pastMinutes && len(a.Hour.Late) == pastMinutes)
}

// mergedFlow is what goes through some replicas together. Percentiles are of all their deliveries.
type mergedFlow struct {
	// known says that all of them count it.
	known             bool
	in, out, finished float64
	late              histogram
}

func mergeFlows(flows []flow) mergedFlow {
	sum := mergedFlow{known: true}
	for i := range flows {
		f := &flows[i]
		sum.known = sum.known && f.Known
		sum.in += f.In
		sum.out += f.Out
		sum.finished += f.Finished
		sum.late.merge(f.Late)
	}
	return sum
}
