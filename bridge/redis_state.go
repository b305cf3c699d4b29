package bridge

import (
	"slices"
	"time"
)

// redisState is what the dashboard shows of Redis: of several servers the memory of all, and else the worst.
type redisState struct {
	// Persistence is "aof"; "rdb" where there is no append-only file, but a snapshot was made since the server started;
	// "none"; or "unknown" where Redis does not tell.
	Persistence string   `json:"persistence"`
	SaveOK      bool     `json:"last_save_ok"`
	SavedAt     *string  `json:"last_save_at"`
	AOFWriteOK  bool     `json:"aof_last_write_ok"`
	UsedMemory  int64    `json:"used_memory"`
	MaxMemory   int64    `json:"maxmemory"`
	Policy      string   `json:"maxmemory_policy"`
	Concerns    []string `json:"concerns"`
}

func newRedisState(infos []map[string]string, concerns []string) *redisState {
	sums := redisOf(infos)
	s := &redisState{
		SaveOK: true, AOFWriteOK: true, UsedMemory: sums.UsedMemory, MaxMemory: sums.MaxMemory, Policy: sums.MaxMemoryPolicy,
		Concerns: slices.Concat([]string{}, concerns),
	}
	kinds := []string{"unknown", "none", "rdb", "aof"} // from the worst on
	worst := len(kinds) - 1
	var saved time.Time
	for i, info := range infos {
		at := snapshot(info)
		kind := 1
		switch {
		case len(info) == 0:
			kind = 0
		case infoNumber(info, "aof_enabled") == 1:
			kind = 3
		case !at.IsZero():
			kind = 2
		}
		worst = min(worst, kind)
		if i == 0 || at.Before(saved) {
			saved = at
		}
		s.SaveOK = s.SaveOK && info["rdb_last_bgsave_status"] != "err"
		s.AOFWriteOK = s.AOFWriteOK && info["aof_last_write_status"] != "err"
	}
	s.Persistence = kinds[worst]
	if !saved.IsZero() {
		text := formatTime(saved)
		s.SavedAt = &text
	}
	return s
}

// snapshot gives when a server made its last snapshot; zero: it made none since it started.
func snapshot(info map[string]string) time.Time {
	if took := info["rdb_last_bgsave_time_sec"]; took == "" || took == "-1" {
		return time.Time{}
	}
	return time.Unix(infoNumber(info, "rdb_last_save_time"), 0)
}
