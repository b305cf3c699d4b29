package delay

// Load is what waits in front of a store.
type Load struct {
	// Pushes and Verbs are how many wait for their call.
	Pushes, Verbs int
	// PushFill and VerbFill are how much of their room they take, 0 to 1. Beyond it the answer is ErrBusy.
	PushFill, VerbFill float64
}

// Load gives what waits now.
func (q *Queue) Load() Load {
	l := q.writer.load()
	if q.settler != q.writer {
		verbs := q.settler.load()
		l.Verbs, l.VerbFill = verbs.Verbs, verbs.VerbFill
	}
	return l
}

func (w *writer) load() Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Load{
		Pushes: len(w.queue) - w.acks, Verbs: w.acks,
		PushFill: float64(w.bytes) / queueBytes, VerbFill: min(float64(w.acks)/queueAcks, 1),
	}
}
