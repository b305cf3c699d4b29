package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// quiet is how long a run listens on after its last job for what should not come.
const quiet = 300 * time.Millisecond

// Result is what a workload showed.
type Result struct {
	Workload  string  `json:"workload"`
	Jobs      int     `json:"jobs"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// Lateness of first deliveries, ms; a negative one is early.
	Min float64 `json:"lateness_min_ms"`
	P50 float64 `json:"lateness_p50_ms"`
	P99 float64 `json:"lateness_p99_ms"`
	Max float64 `json:"lateness_max_ms"`
	// What should not be: jobs that never came, came before they were due, or came again.
	Lost  int `json:"lost"`
	Early int `json:"early"`
	Twice int `json:"twice"`
}

// Faults says what should not have been, or nil.
func (r *Result) Faults() error {
	if r.Lost+r.Early+r.Twice > 0 {
		return fmt.Errorf("%d lost, %d early, %d twice", r.Lost, r.Early, r.Twice)
	}
	return nil
}

// workers take jobs, finish them, and note when they came.
type workers struct {
	o     *Options
	conns []*nats.Conn

	// mu guards what follows.
	mu    sync.Mutex
	seen  map[string]int
	late  []time.Duration
	first time.Time
	last  time.Time
}

func startWorkers(o *Options) (*workers, error) {
	w := &workers{o: o, seen: make(map[string]int, o.Jobs)}
	for range o.Workers {
		nc, err := o.Connect()
		if err != nil {
			w.stop()
			return nil, err
		}
		w.conns = append(w.conns, nc)
		sub, err := nc.QueueSubscribe(o.Prefix+".ready."+o.Topic, "bench", w.take)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("subscribe jobs: %w", err)
		}
	}
	return w, nil
}

func (w *workers) stop() {
	for _, nc := range w.conns {
		nc.Close()
	}
}

func (w *workers) take(msg *nats.Msg) {
	now := w.o.Now()
	due, err := time.Parse(time.RFC3339Nano, msg.Header.Get("Dq-Due-At"))
	_ = msg.Respond([]byte("+ACK")) // one that is lost shows as a job that comes twice
	attempt, _ := strconv.Atoi(msg.Header.Get("Dq-Attempt"))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[msg.Header.Get("Dq-Id")]++
	if err == nil && attempt == 1 {
		w.late = append(w.late, now.Sub(due))
	}
	if w.first.IsZero() {
		w.first = now
	}
	w.last = now
}

func (w *workers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// result says what was seen of the jobs with these ids.
func (w *workers) result(workload string, ids []string, began time.Time) Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Result{Workload: workload, Jobs: len(ids), Seconds: w.last.Sub(began).Seconds()}
	r.PerSecond = float64(r.Jobs) / r.Seconds
	for _, id := range ids {
		switch n := w.seen[id]; {
		case n == 0:
			r.Lost++
		case n > 1:
			r.Twice++
		}
	}
	slices.Sort(w.late)
	if n := len(w.late); n > 0 {
		ms := func(i int) float64 { return float64(w.late[i].Microseconds()) / 1000 }
		r.Min, r.P50, r.P99, r.Max = ms(0), ms(n/2), ms(n*99/100), ms(n-1)
	}
	r.Early, _ = slices.BinarySearch(w.late, 0)
	return r
}

// Lateness pushes at a rate, with delays drawn evenly, and measures how late each job comes.
func Lateness(ctx context.Context, o Options) (Result, error) {
	return flow(ctx, &o, "lateness", time.Time{})
}

// Drain pushes jobs that are all due at one moment and measures how long it takes until all are taken and finished.
func Drain(ctx context.Context, o Options) (Result, error) {
	return flow(ctx, &o, "drain", o.Now().Add(o.MaxDelay))
}

func flow(ctx context.Context, o *Options, workload string, at time.Time) (Result, error) {
	w, err := startWorkers(o)
	if err != nil {
		return Result{}, err
	}
	defer w.stop()
	made, err := ids(o.Jobs)
	if err != nil {
		return Result{}, err
	}
	nc, err := o.Connect()
	if err != nil {
		return Result{}, err
	}
	defer nc.Close()
	p, err := newPusher(o, nc)
	if err != nil {
		return Result{}, err
	}
	began := o.Now()
	if err = p.run(ctx, made, at); err != nil {
		return Result{}, err
	}
	if !at.IsZero() {
		if o.Now().After(at) {
			return Result{}, fmt.Errorf("pushing took longer than the delay of %s: take a longer one", o.MaxDelay)
		}
		began = at
	}
	err = wait(ctx, "wait for the jobs", func() bool { return w.count() == len(made) })
	if err == nil {
		done := o.Now().Add(quiet)
		err = wait(ctx, "listen on", func() bool { return o.Now().After(done) })
	}
	return w.result(workload, made, began), err
}
