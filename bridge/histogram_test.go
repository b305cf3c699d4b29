package bridge

import (
	"math"
	"testing"
	"time"
)

// Each bucket begins where the one before ends, and holds what lies between.
func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	for bucket := range histogramBuckets {
		start := bucketStart(bucket)
		if got := bucketAt(start); got != bucket {
			t.Errorf("%v, where bucket %d begins, is in bucket %d", start, bucket, got)
		}
		if got := bucketAt(start - 1); bucket > 0 && got != bucket-1 {
			t.Errorf("just below %v is in bucket %d instead of %d", start, got, bucket-1)
		}
	}
	for _, odd := range []time.Duration{-time.Hour, -1, math.MinInt64} {
		if got := bucketAt(odd); got != 0 {
			t.Errorf("%v is in bucket %d", odd, got)
		}
	}
	if got := bucketAt(math.MaxInt64); got != histogramBuckets-1 {
		t.Errorf("the longest time is in bucket %d", got)
	}
	if last := bucketStart(histogramBuckets - 1); last < 24*time.Hour || last > 48*time.Hour {
		t.Errorf("the last bucket begins at %v", last)
	}
}

// Percentiles are near to the true ones, and those of replicas together are of all that was counted.
func TestHistogramPercentiles(t *testing.T) {
	t.Parallel()
	var first, second, both histogram
	if both.percentile(0.5) != nil {
		t.Error("an empty histogram has a percentile")
	}
	for i := range 10_000 {
		late := time.Duration(i+1) * 10 * time.Microsecond // up to 100 ms, evenly
		if i < 9_000 {
			first.add(late)
		} else {
			second.add(late)
		}
	}
	both.merge(first.pairs())
	both.merge(second.pairs())
	for part, want := range map[float64]float64{0.5: 50, 0.9: 90, 0.99: 99} {
		got := *both.percentile(part)
		if math.Abs(got-want) > want/6 {
			t.Errorf("percentile %v is %v ms instead of %v", part, got, want)
		}
	}
	both = histogram{}
	both.merge([]uint32{histogramBuckets, 5, 3}) // of who knows more buckets, and half a pair
	if both != (histogram{}) {
		t.Errorf("nonsense is counted: %v", both)
	}
}
