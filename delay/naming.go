package delay

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// An id that the bridge makes is a UUIDv7, bytes and bits:
//
//	0–5    ms since 1970
//	6–10   version and variant, 6 bits; lane, 6 bits, and number, 28 bits: no two replicas of one store that live at the
//	       same time have one lane (unless there are over 64), and no two ids of one replica and millisecond one number
//	11–14  a hash of all before
//	15     0–63: which of them puts the id into the bucket that it is wanted in
//
// So 11 bytes say all, and Redis keeps 12, which with the header of a string is its smallest piece of memory but one.
const (
	laneBits, numberBits = 6, 28
	steers               = 64
)

// Forms in which ids are kept. No id that a user may choose begins with such a mark.
const (
	uuidLen = 36
	// packedMark begins the 16 bytes of a UUID, madeMark the 11 of one that was made here.
	packedMark, packedLen = "\x01", 1 + 16
	madeMark, madeLen     = "\x02", 1 + 11
)

// SetLane tells the store which of its replicas makes ids here: a small number that no other one has.
func (s *Store) SetLane(replica int) { s.lane.Store(uint64(replica) % (1 << laneBits)) }

// NewID makes an id. Ids that are made one after the other are of one bucket, a batch of them, and the next ones of the next
// bucket: so jobs that are pushed together share a script's call, and later those that promote and deliver them.
func (s *Store) NewID() (string, error) {
	n := s.named.Add(1)
	if n == 1 { // numbers go on from anywhere, so that those of the replica before are not met again
		random, err := uuid.NewRandom()
		if err != nil {
			return "", fmt.Errorf("make id: %w", err)
		}
		n = s.named.Add(binary.BigEndian.Uint64(random[8:]) >> laneBits)
	}
	id, err := uuid.NewV7FromReader(zeros{}) // only its time is used
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	number := s.lane.Load()<<numberBits | n%(1<<numberBits)
	id[6], id[7] = 0x70|byte(number>>30), byte(number>>22)
	id[8], id[9], id[10] = 0x80|byte(number>>16)&0x3f, byte(number>>8), byte(number)
	binary.BigEndian.PutUint32(id[11:], hashed(hashBasis, id[:11]))
	return steered(id, int(n/maxBatch%uint64(len(s.buckets))), len(s.buckets))
}

// zeros gives as many bytes of zero as are wanted.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// steered writes an id with the last byte that puts it into a bucket. Where there are so many buckets that none does, it lies
// where it lies.
func steered(id uuid.UUID, bucket, buckets int) (string, error) {
	text, err := id.MarshalText()
	if err != nil {
		return "", fmt.Errorf("write id: %w", err)
	}
	last := text[len(text)-2:]
	h := hashed(hashBasis, text[:len(text)-2])
	for id[15] = range byte(steers) {
		hex.Encode(last, id[15:])
		if hashed(h, last)%uint32(buckets) == uint32(bucket) {
			break
		}
	}
	return string(text), nil
}

// packID gives the form in which an id is kept: a canonical UUID as its bytes, which saves 40 bytes of Redis's memory a job,
// or 72 where it was made here; any other id as it is.
func packID(id string) string {
	if len(id) != uuidLen || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || strings.ToLower(id) != id {
		return id
	}
	var digits [32]byte
	copy(digits[0:], id[0:8])
	copy(digits[8:], id[9:13])
	copy(digits[12:], id[14:18])
	copy(digits[16:], id[19:23])
	copy(digits[20:], id[24:36])
	var packed [packedLen]byte
	u := (*uuid.UUID)(packed[1:])
	if _, err := hex.Decode(u[:], digits[:]); err != nil {
		return id
	}
	if u[6]>>4 == 7 && u[8]>>6 == 2 && u[15] < steers && binary.BigEndian.Uint32(u[11:]) == hashed(hashBasis, u[:11]) {
		u[6], u[8] = u[6]&0x0f|u[15]<<4, u[8]&0x3f|u[15]>>4<<6
		packed[0] = madeMark[0]
		return string(packed[:madeLen])
	}
	packed[0] = packedMark[0]
	return string(packed[:])
}

func unpackID(stored string) string {
	var u uuid.UUID
	switch {
	case len(stored) == packedLen && strings.HasPrefix(stored, packedMark):
		copy(u[:], stored[1:])
	case len(stored) == madeLen && strings.HasPrefix(stored, madeMark):
		copy(u[:], stored[1:])
		u[15] = u[6]>>4 | u[8]>>6<<4
		u[6], u[8] = 0x70|u[6]&0x0f, 0x80|u[8]&0x3f
		binary.BigEndian.PutUint32(u[11:], hashed(hashBasis, u[:11]))
	default:
		return stored
	}
	return u.String()
}
