package delay

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// BeatEvery is how often a replica shows that it lives.
	BeatEvery = time.Second
	// StaleAfter is the silence after which the others take a replica for dead.
	StaleAfter = 2 * BeatEvery
)

// Slot is the numbered place of one replica. Numbers are used again, so that few of them are ever in use.
type Slot struct {
	Number  int
	Process string
	// Age is the time since its last beat.
	Age time.Duration
	// Leaving says that the replica delivers nothing any more.
	Leaving bool
	// Covers are the slots whose acks this replica takes too.
	Covers []int
	// About is what the replica says of itself: host, version, start.
	About string
}

// Alive reports whether the slot's replica beats and stays.
func (s Slot) Alive() bool { return s.Age < StaleAfter && !s.Leaving }

// Presence is what a replica tells with a beat.
type Presence struct {
	// Process is a random name, without blanks, of the running process.
	Process string
	Covers  []int
	Leaving bool
	About   string
}

// Beat keeps the slot of a process, or takes the lowest free one. It returns the slot's number and all slots.
func (s *Store) Beat(ctx context.Context, p Presence) (int, []Slot, error) {
	leaving := "0"
	if p.Leaving {
		leaving = "1"
	}
	covers := make([]string, len(p.Covers))
	for i, slot := range p.Covers {
		covers[i] = strconv.Itoa(slot)
	}
	covered := strings.Join(covers, ",")
	if covered == "" {
		covered = "-"
	}
	c := &call{script: beatScript, keys: []string{s.space.replicas()}}
	c.args = append(c.args, s.shift().Milliseconds(), p.Process, StaleAfter.Milliseconds(), covered, p.About, leaving)
	if err := s.send(ctx, c); err != nil {
		return 0, nil, fmt.Errorf("beat: %w", err)
	}
	replies := list(c.reply)
	if len(replies) == 0 {
		return 0, nil, fmt.Errorf("beat: unexpected reply %v", c.reply)
	}
	slots := make([]Slot, 0, len(replies)-1)
	for _, reply := range replies[1:] {
		slots = append(slots, slotOf(list(reply)))
	}
	return int(number(replies[0])), slots, nil
}

func slotOf(entries []any) Slot {
	if len(entries) != 6 {
		return Slot{Number: -1, Leaving: true}
	}
	slot := Slot{
		Number: int(number(entries[0])), Process: text(entries[1]), Age: time.Duration(number(entries[2])) * time.Millisecond,
		Leaving: text(entries[3]) == "1", About: text(entries[5]),
	}
	for field := range strings.SplitSeq(text(entries[4]), ",") {
		if covered, err := strconv.Atoi(field); err == nil {
			slot.Covers = append(slot.Covers, covered)
		}
	}
	return slot
}
