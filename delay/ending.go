package delay

// Ending is how a delivery ended without a finish.
type Ending string

// Endings of deliveries.
const (
	// EndedTTR: its TTR ran out.
	EndedTTR Ending = "ttr"
	// EndedReleased: its worker gave the job back.
	EndedReleased Ending = "released"
	// EndedReturned: after one of these there was another delivery, which was taken back, or whose lease ran out.
	EndedReturned Ending = "returned"
)

// endingOf gives what a phase of tries says of the last delivery.
func endingOf(phase string) Ending {
	switch phase {
	case "":
		return ""
	case "t":
		return EndedTTR
	case "r":
		return EndedReleased
	}
	return EndedReturned
}
