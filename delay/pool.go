package delay

// Pool is the state of the connections to Redis.
type Pool struct {
	// Open is how many there are, Idle how many of them nobody uses.
	Open, Idle int
	// Timeouts counts the calls that got none in time.
	Timeouts uint64
}

// Pool gives the state now.
func (s *Store) Pool() Pool {
	p := s.client.PoolStats()
	return Pool{Open: int(p.TotalConns), Idle: int(p.IdleConns), Timeouts: uint64(p.Timeouts)}
}
