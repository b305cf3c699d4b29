package delay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldestRedis is the first version whose commands the scripts need: ZMSCORE and LPOP with a count.
const oldestRedis = "6.2"

// Concern is something about a Redis server that endangers jobs although calls succeed.
type Concern struct {
	// Kind is one of eviction, persistence, disk, replicas, replica and unknown.
	Kind string
	// Grave says that jobs can be lost without a crash.
	Grave bool
	Text  string
}

// Memory is what a Redis server uses of its memory, bytes.
type Memory struct {
	Used int64
	// Max is where it refuses to take more; 0: there is no limit.
	Max int64
}

// fuller gives the one of two servers that is nearer to its limit; one without a limit is farther than any other.
func fuller(a, b Memory) Memory {
	switch {
	case a.Max == 0 && b.Max == 0:
		return Memory{Used: max(a.Used, b.Used)}
	case b.Max == 0, a.Max > 0 && float64(a.Used)/float64(a.Max) >= float64(b.Used)/float64(b.Max):
		return a
	}
	return b
}

// memoryOf reads what a server says of its memory; a field that is not there is 0.
func memoryOf(info map[string]string) Memory {
	return Memory{Used: number(info["used_memory"]), Max: number(info["maxmemory"])}
}

// Concerns asks each server that holds jobs, and gives the memory of the fullest one. The error is ErrOldServer where one
// is too old to work with.
func (s *Store) Concerns(ctx context.Context) ([]Concern, Memory, error) {
	infos, err := s.Infos(ctx)
	if err != nil {
		return nil, Memory{}, fmt.Errorf("ask redis for its settings: %w", err)
	}
	var found []Concern
	var memory Memory
	for _, info := range infos {
		concerns, err := concernsOf(info, s.waitReplicas)
		if err != nil {
			return nil, Memory{}, fmt.Errorf("ask redis for its settings: %w", err)
		}
		found = append(found, concerns...)
		memory = fuller(memory, memoryOf(info))
	}
	slices.SortFunc(found, func(a, b Concern) int { return strings.Compare(a.Kind+a.Text, b.Kind+b.Text) })
	return slices.Compact(found), memory, nil
}

// concernsOf judges what a server says of itself; a field that is not there is no concern.
func concernsOf(info map[string]string, waitReplicas int) ([]Concern, error) {
	var found []Concern
	add := func(kind string, grave bool, format string, args ...any) {
		found = append(found, Concern{Kind: kind, Grave: grave, Text: fmt.Sprintf(format, args...)})
	}
	if len(info) == 0 {
		add("unknown", false, "redis does not let the bridge read INFO: its eviction policy and persistence are not checked")
		return found, nil
	}
	if version := info["redis_version"]; olderThan(version, oldestRedis) {
		return nil, fmt.Errorf("%w: redis %s is too old, %s or later is needed", ErrOldServer, version, oldestRedis)
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys") {
		add("eviction", true, "redis's maxmemory-policy %s can drop jobs, it should be noeviction", policy)
	}
	if info["aof_enabled"] == "0" {
		add("persistence", false, "redis's append-only file is off: a crash of redis loses what was pushed since its last snapshot, "+
			"or everything where it makes none")
	}
	if info["aof_last_write_status"] == "err" || info["aof_last_bgrewrite_status"] == "err" || info["rdb_last_bgsave_status"] == "err" {
		add("disk", true, "redis cannot write its files")
	}
	if info["role"] == "slave" {
		add("replica", true, "redis is a replica: it takes no jobs")
	}
	if connected, err := strconv.Atoi(info["connected_slaves"]); err == nil && connected < waitReplicas {
		add("replicas", false, "redis has %d replicas, DQ_REDIS_WAIT_REPLICAS wants %d: no push is confirmed", connected, waitReplicas)
	}
	return found, nil
}

// olderThan compares the first two numbers of versions; one that is no version is not older.
func olderThan(version, than string) bool {
	major, minor, known := versionOf(version)
	wantMajor, wantMinor, _ := versionOf(than)
	return known && (major < wantMajor || major == wantMajor && minor < wantMinor)
}

func versionOf(text string) (int, int, bool) {
	first, rest, _ := strings.Cut(text, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, errMajor := strconv.Atoi(first)
	minor, errMinor := strconv.Atoi(second)
	return major, minor, errors.Join(errMajor, errMinor) == nil
}
