package delay

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// NewID makes an id, a UUIDv7. Ids that are made one after the other are of one bucket, a batch of them, and the next
// ones of the next bucket: so jobs that are pushed together share a script's call, and later those that promote and
// deliver them.
func (s *Store) NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	turn := s.named.Add(1) / maxBatch
	return steered(id, int(turn%uint64(len(s.buckets))), len(s.buckets)), nil
}

// steered writes an id with another last byte, one of those that put it into a bucket. Where there are so many buckets
// that none does, it lies where it lies.
func steered(id uuid.UUID, bucket, buckets int) string {
	text := []byte(id.String())
	last := text[len(text)-2:]
	h := hashed(hashBasis, text[:len(text)-2])
	for range 256 {
		hex.Encode(last, id[15:])
		if hashed(h, last)%uint32(buckets) == uint32(bucket) {
			break
		}
		id[15]++
	}
	return string(text)
}
