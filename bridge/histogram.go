package bridge

import (
	"math/bits"
	"time"
)

const (
	// histogramUnit is the width of the first bucket. From there on each doubling has two buckets of one width, up to the
	// last one, which begins at a day and a half.
	histogramUnit    = 64 * time.Microsecond
	histogramBuckets = 64
)

// histogram counts lengths of time. Replicas send each other theirs, so what a bucket stands for is part of their talk.
type histogram [histogramBuckets]uint32

// bucketAt gives the bucket of a length of time.
func bucketAt(d time.Duration) int {
	if d < histogramUnit {
		return 0
	}
	halves := uint64(d / (histogramUnit / 2))
	doubling := bits.Len64(halves) - 2
	return min(1+2*doubling+int(halves>>doubling&1), histogramBuckets-1)
}

// bucketStart gives where a bucket begins.
func bucketStart(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	doubling, half := (bucket-1)/2, (bucket-1)%2
	return (histogramUnit << doubling) + time.Duration(half)*(histogramUnit<<doubling)/2
}

func (h *histogram) add(d time.Duration) { h[bucketAt(d)]++ }

// pairs gives the buckets that are not empty, each as its number and its count: so histograms are sent.
func (h *histogram) pairs() []uint32 {
	list := []uint32{}
	for bucket, n := range h {
		if n > 0 {
			list = append(list, uint32(bucket), n)
		}
	}
	return list
}

// merge adds what pairs gave.
func (h *histogram) merge(pairs []uint32) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] < histogramBuckets {
			h[pairs[i]] += pairs[i+1]
		}
	}
}

func (h *histogram) sum(other *histogram) {
	for bucket, n := range other {
		h[bucket] += n
	}
}

// percentile gives the length of time, ms, that a part of those counted are not above; nil: none was counted. Those of a
// bucket are taken to be spread evenly over it, so it is right to a sixth or better.
func (h *histogram) percentile(part float64) *float64 {
	total := uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	if total == 0 {
		return nil
	}
	left := part * float64(total)
	for bucket, n := range h {
		if left > float64(n) || n == 0 {
			left -= float64(n)
			continue
		}
		at := bucketStart(bucket)
		if bucket < histogramBuckets-1 {
			at += time.Duration(left / float64(n) * float64(bucketStart(bucket+1)-at))
		}
		return milliseconds(at)
	}
	return milliseconds(bucketStart(histogramBuckets - 1)) // rounding alone comes as far as here
}

func milliseconds(d time.Duration) *float64 {
	ms := float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
	return &ms
}
