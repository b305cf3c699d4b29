package delay

import (
	"strconv"
	"testing"

	"github.com/google/uuid"
)

// TestNewID: ids are UUIDs of version 7, no two are the same, and a run of them is of one bucket, as far as there is one
// for it.
func TestNewID(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 7, 8, 1024} {
		t.Run(strconv.Itoa(buckets), func(t *testing.T) {
			t.Parallel()
			s := NewStore(nil, StoreOptions{Prefix: "x", Buckets: buckets})
			const runs = 32
			known, held, apart := make(map[string]bool), make(map[int]int), 0
			var last int
			for i := range runs * maxBatch {
				id, err := s.NewID()
				if err != nil {
					t.Fatal(err)
				}
				if u, err := uuid.Parse(id); err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != id {
					t.Fatalf("id %q: %v", id, err)
				}
				known[id] = true
				b := s.BucketOf(id)
				held[b]++
				if i > 0 && b != last {
					apart++
				}
				last = b
			}
			if len(known) != runs*maxBatch {
				t.Errorf("%d different ids of %d", len(known), runs*maxBatch)
			}
			if buckets <= 8 && apart > runs {
				t.Errorf("the bucket changed %d times in %d runs", apart, runs)
			}
			for b := range min(buckets, 8) {
				if share := runs * maxBatch / buckets; buckets <= 8 && held[b] < share/2 {
					t.Errorf("bucket %d has %d ids of %d", b, held[b], share)
				}
			}
		})
	}
}
