package delay

import (
	"strconv"
	"strings"
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
				if packed := packID(id); len(packed) != madeLen || unpackID(packed) != id {
					t.Fatalf("id %q is kept as %q, which is %q", id, packed, unpackID(packed))
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

// TestLanes: replicas that make ids at the same moment never make the same one.
func TestLanes(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for replica := range 1 << laneBits {
		s := NewStore(nil, StoreOptions{Prefix: "x", Buckets: 8})
		s.SetLane(replica)
		s.named.Store(1) // all count alike
		for range 100 {
			id, err := s.NewID()
			if err != nil {
				t.Fatal(err)
			}
			// The time may differ: what is behind it must too.
			if rest := id[14:28]; known[rest] {
				t.Fatalf("%s is of two replicas", rest)
			} else {
				known[rest] = true
			}
		}
	}
}

// TestPackID: whatever an id is, what is kept of it says which it is.
func TestPackID(t *testing.T) {
	t.Parallel()
	for id, length := range map[string]int{
		"a":                                    1,
		"0192e4a0-7c00-7000-8000-000000000001": packedLen,
		"0192E4A0-7c00-7000-8000-000000000001": uuidLen,
		"0192e4a0-7c00-7000-8000-00000000000g": uuidLen,
		"0192e4a0-7c00-7000-8000+000000000001": uuidLen,
		"00000000-0000-0000-0000-000000000000": packedLen,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": packedLen,
		strings.Repeat("x", packedLen):         packedLen,
		strings.Repeat("x", madeLen):           madeLen,
	} {
		if packed := packID(id); len(packed) != length || unpackID(packed) != id {
			t.Errorf("%s is kept as %q, which is %q", id, packed, unpackID(packed))
		}
	}
}

func BenchmarkNewID(b *testing.B) {
	s := NewStore(nil, StoreOptions{Prefix: "x", Buckets: 8})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.NewID(); err != nil {
			b.Fatal(err)
		}
	}
}
