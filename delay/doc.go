// Package delay is the queue on Redis: jobs, their stored form, the scripts that change their state, the writers that batch
// in front of them, and the tickers that make due jobs ready. It knows nothing of NATS.
//
// The states of a job, and what moves it (a lease is a flight that does not count as an attempt yet):
//
//	           promote                reserve              confirm
//	delayed ────────────► ready ────────────► (leased) ────────────► in flight ──finish──► gone
//	   ▲                    ▲                    │                      │ │ │
//	   │                    ├── return, 5 s ─────┘                      │ │ │
//	   │                    ├── TTR ran out, release ───────────────────┘ │ │
//	   └────────────────────┼── the same, with a pause ───────────────────┘ │
//	                        └── kick ◄── dead ◄── last attempt, bury ───────┘
//
// Where to find what:
//
//	a job      job.go, codec.go (the stored form), keys.go (all keys), scripts.go and scripts/*.lua
//	changes    store.go (how a script is called), push.go, deliver.go, settle.go, manage.go
//	by itself  ticker.go, sweep.go, retention.go
//	around     queue.go puts store, writer.go and the tickers together; replicas.go, pause.go
//	looking    stored.go, listing.go, topics.go, stats.go, check*.go (what should not be)
//
// The clock is Redis's, and it never goes back within a bucket; local clocks only measure how long something takes.
// One script is one change of state, and Go never composes two writes to one. Who does not get an answer does not know
// whether the change was made: that is UnavailableError.Maybe, and nothing here sends such a call again but verbs that
// nobody waits for, which may be carried out twice.
package delay
