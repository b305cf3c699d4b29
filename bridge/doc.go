// Package bridge is the NATS side of dqbridge: it takes pushes, hands out what is due, and takes the answers.
//
// The way of a job through it:
//
//	push     intake.go      decode, check, give to the queue, answer when Redis has it
//	         stream.go      or pull it from a stream (arrivals.go)
//	due      dispatcher.go  reserve from the queue in turns over the topics (topics.go), publish (batch.go, ready.go)
//	         flights.go     what is out, and how much more may be
//	         barrier.go     is the delivery certain? confirm it, or give the lease back
//	         pubacks.go     or a stream has the last word (captures.go)
//	         pops.go        or give it to a request that waits
//	answer   acks.go        finish, release, touch, bury, by ack subject or by id
//	around   replicas.go    slots, whose acks are taken; what replicas tell each other (notes.go)
//	         service.go     all subscriptions to requests; admin*.go; events.go; http.go; metrics.go
//
// It knows no Redis command: all state is behind delay.Queue.
package bridge
