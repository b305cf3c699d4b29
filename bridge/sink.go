package bridge

import (
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

// sink passes on to the bridge's parts what the queue does by itself.
type sink struct{ b *Bridge }

func (s sink) Ready(bucket int, topic string) { s.b.dispatcher.ready(bucket, topic) }

func (s sink) Ended(f delay.Flight) { s.b.replicas.ended(f) }

func (s sink) Died(job delay.DeadJob) {
	s.b.metrics.died(job.Reason)
	s.b.events.died(&job)
}

func (s sink) RanOut(leases, ttrs int) {
	s.b.metrics.leasesRunOut.Add(float64(leases))
	s.b.metrics.ttrsRunOut.Add(float64(ttrs))
}

func (s sink) Orphans(bucket, n int) {
	s.b.metrics.orphans.Add(float64(n))
	s.b.log.Warn().Int("bucket", bucket).Int("ids", n).Msg("ids without a record are dropped")
}

func (s sink) Found(f delay.Finding) {
	s.b.metrics.found.of(f.Kind).Inc()
	// What cannot be mended is found again each round.
	if !f.Mended && !s.b.found.Allow() {
		return
	}
	s.b.log.Error().Str("kind", f.Kind).Int("bucket", f.Bucket).Str("id", f.ID).Str("detail", f.Detail).Bool("mended", f.Mended).
		Msg("store holds what should not be")
}

func (s sink) Dropped(old, over int) {
	s.b.metrics.dropped.of("age").Add(float64(old))
	s.b.metrics.dropped.of("number").Add(float64(over))
	s.b.log.Warn().Int("old", old).Int("over", over).Msg("dead jobs are dropped")
}

func (s sink) Jumped(_ int, by time.Duration) { s.b.concerns.noteJump(by) }

func (s sink) Paused() []string { return s.b.dispatcher.pausedNames() }

func (s sink) Offer(bucket int) delay.Offer { return s.b.dispatcher.offer(bucket) }

func (s sink) Leased(_ int, offer delay.Offer, asked time.Time, p delay.Promotion) {
	s.b.dispatcher.leased(offer, asked, p)
}

func (s sink) Trouble(duty string, err error) { s.b.metrics.trouble(duty, err) }
