package delay

// Finding is something in a store that should not be.
type Finding struct {
	// Kind is one of the Found constants.
	Kind   string `json:"kind"`
	Bucket int    `json:"bucket"`
	// ID or Topic say what it is about.
	ID    string `json:"id,omitempty"`
	Topic string `json:"topic,omitempty"`
	// Detail is for people.
	Detail string `json:"detail,omitempty"`
	// Mended says that a repair has put it right.
	Mended bool `json:"mended"`
}

// Kinds of findings.
const (
	// FoundOrphan: traces of an id that has no record.
	FoundOrphan = "orphan"
	// FoundDouble: an id in two states.
	FoundDouble = "double"
	// FoundLost: a job in no state, so that nobody would deliver it.
	FoundLost = "lost"
	// FoundUnknown: a record of a format that this version does not know. It is left alone.
	FoundUnknown = "unknown"
	// FoundStale: entries of a list that stand for no ready job. They are harmless; reserve passes over them.
	FoundStale = "stale"
	// FoundInactive: a topic's list that no replica would look at, or the mark of one that is empty.
	FoundInactive = "inactive"
	// FoundCounter: a counter that differs from a full count.
	FoundCounter = "counter"
	// FoundBusy: counters that changed while they were counted, so that nothing can be said of them.
	FoundBusy = "busy"
)
