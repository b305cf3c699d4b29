package delay

import "fmt"

// bucketKeys are the keys of one bucket. They carry one hash tag, so a script of the bucket touches one cluster slot.
type bucketKeys struct {
	// fixed are KEYS[1..9] of every script:
	//
	//	pool     hash  id → record (codec.go)
	//	bodies   hash  id → body, where it is kept beside the record
	//	bucket   zset  id → due, ms: delayed jobs
	//	running  zset  id → deadline, ms: leased for a delivery, or delivered
	//	tries    hash  id → push, token, deliveries, owner, phase, topic, reason: jobs that were delivered or died
	//	dead     zset  id → when it died, ms
	//	topics   hash  number of jobs: "<state>:<topic>", the states being d, r, i, x; "p:<topic>" how many entries
	//	               left the head of the topic's list since it was last empty
	//	active   zset  topic → ms when its list last went from empty to not empty
	//	clock    hash  now: the last time a script saw, µs; step: how it goes on since Redis's clock went back
	//	               (clock.lua); seq: the counter of pushes and deliveries; watch: when a replica will look
	fixed []string
	// lists is what the key of a topic's list begins with: a list of the ids that are ready, and of ids that no
	// longer are, which reserve passes over.
	lists string
	// seen is a zset: mark of a stream's message that a push came in → its sequence in the stream. What the stream can
	// no longer send again is taken out.
	seen string
}

// Positions in bucketKeys.fixed.
const (
	keyPool = iota
	keyBodies
	keyBucket
	keyRunning
	keyTries
	keyDead
	keyTopics
	keyActive
	keyClock
	fixedKeys
)

// keyspace builds all keys of one store.
type keyspace struct{ prefix string }

func (k keyspace) bucket(b int) bucketKeys {
	tag := fmt.Sprintf("%s:{%d}:", k.prefix, b)
	fixed := [fixedKeys]string{
		keyPool: "pool", keyBodies: "bodies", keyBucket: "bucket", keyRunning: "running", keyTries: "tries",
		keyDead: "dead", keyTopics: "topics", keyActive: "active", keyClock: "clock",
	}
	for i, name := range fixed {
		fixed[i] = tag + name
	}
	return bucketKeys{fixed: fixed[:], lists: tag + "topic:", seen: tag + "seen"}
}

// meta is a hash: layout, buckets, store (a random id).
func (k keyspace) meta() string { return k.prefix + ":meta" }

// replicas is a hash: slot → process, ms of its last beat, leaving, slots it covers, what it says of itself.
func (k keyspace) replicas() string { return k.prefix + ":meta:replicas" }

// topics is a hash: topic → ms since it is paused.
func (k keyspace) topics() string { return k.prefix + ":meta:topics" }

// bucketOf gives the bucket of a job by its id alone (FNV-1a, 32 bits). It must never change: it says where jobs are.
func bucketOf(id string, buckets int) int { return int(hashed(hashBasis, id) % uint32(buckets)) }

// hashBasis is what a hash begins with.
const hashBasis = 2166136261

// hashed goes on with a hash.
func hashed[T string | []byte](h uint32, text T) uint32 {
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}
