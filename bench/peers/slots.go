package peers

import "context"

// slots bounds the requests that are out on one connection, and keeps the first error of their answers.
type slots struct {
	// out has an entry for each request that is out: take puts one in, free takes it out.
	out    chan struct{}
	failed chan error
}

func newSlots(most int) slots {
	return slots{out: make(chan struct{}, most), failed: make(chan error, 1)}
}

// take waits for a slot.
func (s slots) take(ctx context.Context) error {
	select {
	case s.out <- struct{}{}:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) free() { <-s.out }

func (s slots) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first one is told
	}
}

// flush waits until all is answered: it holds every slot then.
func (s slots) flush(ctx context.Context) error {
	for range cap(s.out) {
		if err := s.take(ctx); err != nil {
			return err
		}
	}
	for range cap(s.out) {
		s.free()
	}
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}
