// Command go shows what a client of dqbridge does. It needs the NATS client library and nothing else.
//
//	go run ./examples/go push        store a job that is due in two seconds
//	go run ./examples/go work [N]    take jobs and finish them, until Ctrl-C or after N of them
//	go run ./examples/go nak         give a job back with a delay, finish it at its second attempt
//	go run ./examples/go debounce    push one id three times: one delivery, of the last push
//	go run ./examples/go pull        ask for one job, at this program's own pace
//
// NATS_URL says where NATS is; without it, nats://127.0.0.1:4222.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// job is a job as it is pushed and as it is delivered; the fields that a client does not use may be left out.
type job struct {
	ID          string          `json:"id,omitempty"`
	Topic       string          `json:"topic"`
	Delay       any             `json:"delay,omitempty"` // pushed: seconds or "1m30s"; delivered: seconds
	OnDuplicate string          `json:"on_duplicate,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
	Attempt     int             `json:"attempt,omitempty"` // set in a delivery: 1, 2, ...
	DueAt       time.Time       `json:"due_at,omitzero"`   // set in a delivery
}

// envelope is the answer to every request.
type envelope struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

var errNoJob = errors.New("no job at present")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL))
	if err != nil {
		return err
	}
	defer nc.Close()
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch args[0] {
	case "push":
		return push(ctx, nc, job{Topic: "example", Delay: 2, Body: json.RawMessage(`{"to":"ann@example.org"}`)})
	case "work":
		limit := 0
		if len(args) > 1 {
			if limit, err = strconv.Atoi(args[1]); err != nil {
				return err
			}
		}
		return work(ctx, nc, limit)
	case "nak":
		return nak(ctx, nc)
	case "debounce":
		return debounce(ctx, nc)
	case "pull":
		return pull(ctx, nc)
	}
	return errors.New("usage: push | work [N] | nak | debounce | pull")
}

// push stores a job. A nil error means that Redis has it. Where no answer came, push again with the same id: that
// stores nothing twice.
func push(ctx context.Context, nc *nats.Conn, j job) error {
	payload, err := json.Marshal(j)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "dq.push", payload)
	if err != nil {
		return err
	}
	var pushed struct {
		ID       string    `json:"id"`
		DueAt    time.Time `json:"due_at"`
		Replaced bool      `json:"replaced"`
	}
	if err := read(msg.Data, &pushed); err != nil {
		return err
	}
	fmt.Printf("pushed %s, due %s, replaced %t\n", pushed.ID, pushed.DueAt.Format(time.RFC3339Nano), pushed.Replaced)
	return nil
}

// work takes jobs as one of a group of workers: each job goes to one of them.
func work(ctx context.Context, nc *nats.Conn, limit int) error {
	sub, err := nc.QueueSubscribeSync("dq.ready.example", "workers")
	if err != nil {
		return err
	}
	if limit > 0 {
		if err := sub.AutoUnsubscribe(limit); err != nil {
			return err
		}
	}
	// Ctrl-C takes no new jobs; those that have come are still done.
	defer context.AfterFunc(ctx, func() { _ = sub.Drain() })()
	doing := context.WithoutCancel(ctx)
	fmt.Println("working on dq.ready.example")
	for {
		msg, err := sub.NextMsgWithContext(doing)
		if err != nil && (ctx.Err() != nil || errors.Is(err, nats.ErrMaxMessages)) {
			return nil
		}
		if err != nil {
			return err
		}
		j, err := show(msg)
		if err != nil {
			return err
		}
		// The work goes here. Where it may outlast the TTR, msg.InProgress() now and then starts the TTR again;
		// where it can never succeed, msg.Term() makes the job dead at once.
		if err := finish(doing, nc, msg); err != nil {
			fmt.Printf("%s is not finished, it will come again: %v\n", j.ID, err)
		}
	}
}

// finish acknowledges a delivery and waits until the job is gone from Redis. msg.Ack() is quicker and does not wait:
// an ack that is lost means one more delivery. msg.AckSync() waits too, but does not look at the answer's code.
func finish(ctx context.Context, nc *nats.Conn, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, msg.Reply, []byte("+ACK"))
	if err != nil {
		return err
	}
	return read(reply.Data, nil)
}

// nak gives a job back at the first attempt and finishes it at the second.
func nak(ctx context.Context, nc *nats.Conn) error {
	const topic = "example.nak.go"
	sub, err := nc.QueueSubscribeSync("dq.ready."+topic, "workers")
	if err != nil {
		return err
	}
	if err := push(ctx, nc, job{Topic: topic}); err != nil {
		return err
	}
	for {
		msg, err := next(ctx, sub, 10*time.Second)
		if err != nil {
			return err
		}
		j, err := show(msg)
		if err != nil {
			return err
		}
		if j.Attempt > 1 {
			return finish(ctx, nc, msg)
		}
		if err := msg.NakWithDelay(time.Second); err != nil {
			return err
		}
	}
}

// debounce pushes one id again and again; each push takes the place of the one before, with its own due time.
func debounce(ctx context.Context, nc *nats.Conn) error {
	const topic = "example.debounce.go"
	sub, err := nc.QueueSubscribeSync("dq.ready."+topic, "workers")
	if err != nil {
		return err
	}
	for n := 1; n <= 3; n++ {
		j := job{ID: "debounce-go", Topic: topic, Delay: "2s", OnDuplicate: "replace", Body: json.RawMessage(strconv.Itoa(n))}
		if err = push(ctx, nc, j); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
	msg, err := next(ctx, sub, 10*time.Second)
	if err != nil {
		return err
	}
	if _, err := show(msg); err != nil {
		return err
	}
	return finish(ctx, nc, msg)
}

// pull asks for one job and waits up to 5 s for it. The request has 2 s more: a caller that gave up loses the delivery.
func pull(ctx context.Context, nc *nats.Conn) error {
	const topic = "example.pull.go"
	if err := push(ctx, nc, job{Topic: topic, Delay: "500ms"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 7*time.Second)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "dq.pop."+topic, []byte(`{"wait":"5s"}`))
	if err != nil {
		return err
	}
	if msg.Header.Get("Dq-Ack") == "" { // no delivery: an envelope says why
		return cmp.Or(read(msg.Data, nil), errNoJob)
	}
	if _, err := show(msg); err != nil {
		return err
	}
	return finish(ctx, nc, msg)
}

func next(ctx context.Context, sub *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// show reads a delivery and prints it.
func show(msg *nats.Msg) (job, error) {
	var j job
	if err := json.Unmarshal(msg.Data, &j); err != nil {
		return j, err
	}
	late := time.Since(j.DueAt).Round(100 * time.Microsecond)
	fmt.Printf("job %s, attempt %d, %s after it was due, body %s\n", j.ID, j.Attempt, late, j.Body)
	return j, nil
}

// read takes an answer apart: its data, or an error that says what the bridge said.
func read(answer []byte, data any) error {
	var e envelope
	if err := json.Unmarshal(answer, &e); err != nil {
		return fmt.Errorf("not an answer of a bridge: %w", err)
	}
	switch {
	case e.Code == 404:
		return fmt.Errorf("%w: %s", errNoJob, e.Message)
	case e.Code != 200:
		return fmt.Errorf("%d: %s", e.Code, e.Message)
	case data == nil:
		return nil
	}
	return json.Unmarshal(e.Data, data)
}
