package delay

import (
	"errors"
	"strings"
	"testing"

	"github.com/dqbridge/dqbridge/internal/testenv"
)

func TestConcernsOf(t *testing.T) {
	t.Parallel()
	well := "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\naof_last_write_status:ok\r\nrole:master\r\nconnected_slaves:1"
	for name, row := range map[string]struct {
		info  string
		kinds string // of the concerns, grave ones with a !
		old   bool
	}{
		"all is well":                          {info: well},
		"nothing is told":                      {kinds: "unknown"},
		"too old":                              {info: "redis_version:6.0.16", old: true},
		"older still":                          {info: "redis_version:5.0.7", old: true},
		"the oldest that does":                 {info: "redis_version:6.2.0"},
		"newer":                                {info: "redis_version:10.0.1"},
		"not a version":                        {info: "redis_version:unstable"},
		"jobs can be evicted":                  {info: strings.ReplaceAll(well, "noeviction", "allkeys-lru"), kinds: "eviction!"},
		"only keys that expire can be evicted": {info: strings.ReplaceAll(well, "noeviction", "volatile-lru")},
		"no append-only file":                  {info: strings.ReplaceAll(well, "aof_enabled:1", "aof_enabled:0"), kinds: "persistence"},
		"the disk is full":                     {info: strings.ReplaceAll(well, "status:ok", "status:err"), kinds: "disk!"},
		"a replica":                            {info: strings.ReplaceAll(well, "role:master", "role:slave"), kinds: "replica!"},
		"too few replicas":                     {info: strings.ReplaceAll(well, "slaves:1", "slaves:0"), kinds: "replicas"},
		"two at once": {
			info: strings.NewReplacer("noeviction", "allkeys-random", "aof_enabled:1", "aof_enabled:0").Replace(well), kinds: "eviction! persistence",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			concerns, err := concernsOf(infoFields(row.info), 1)
			if errors.Is(err, ErrOldServer) != row.old || (err != nil) != row.old {
				t.Errorf("error %v, too old should be %v", err, row.old)
			}
			var kinds []string
			for _, c := range concerns {
				if c.Grave {
					c.Kind += "!"
				}
				kinds = append(kinds, c.Kind)
			}
			if got := strings.Join(kinds, " "); got != row.kinds {
				t.Errorf("concerns %q, should be %q", got, row.kinds)
			}
		})
	}
}

func TestConcernsOfAServer(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	store := NewStore(redis.Client(), StoreOptions{Prefix: testenv.Prefix(t), Buckets: 1})
	concerns, _, err := store.Concerns(t.Context())
	if err != nil || len(concerns) != 1 || concerns[0].Kind != "persistence" {
		t.Errorf("concerns %v, %v", concerns, err)
	}
	if err = redis.Client().Do(t.Context(), "acl", "setuser", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	concerns, _, err = store.Concerns(t.Context())
	if err != nil || len(concerns) != 1 || concerns[0].Kind != "unknown" {
		t.Errorf("concerns where INFO is forbidden: %v, %v", concerns, err)
	}
}
