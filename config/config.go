// Package config reads the environment of the bridge and checks it: every variable of the contract, with its default.
// It is a leaf: main reads it and copies values into the options of the other packages.
package config

import (
	"os"
	"time"
)

// Config is the whole configuration, one group an area.
//
// A field's tags are its documentation, which Usage prints and a test holds against the README: envconfig is the full
// name of the variable, default what holds where it is not set, unit its type or unit, desc its meaning and that of
// zero or empty. An empty variable is empty, not its default. secret says how a value is masked in an error.
type Config struct {
	NATS  NATS
	Redis Redis
	Store
	Jobs
	Dead Dead
	HTTP HTTP
	Log  Log

	ShutdownTimeout time.Duration `envconfig:"DQ_SHUTDOWN_TIMEOUT" default:"25s" unit:"duration" desc:"how long a stop waits for acks that are out; 0: not at all"`
}

// NATS says how the bridge reaches its NATS server or cluster.
type NATS struct {
	URL   string `envconfig:"DQ_NATS_URL" default:"nats://127.0.0.1:4222" unit:"URLs" secret:"url" desc:"servers of one cluster, comma separated; nats, tls, ws or wss, with user info or token"`
	Creds string `envconfig:"DQ_NATS_CREDS" unit:"file" secret:"file" desc:"credentials (JWT and seed); empty: none"`
	NKey  string `envconfig:"DQ_NATS_NKEY" unit:"file" secret:"file" desc:"NKey seed; empty: none"`
	CA    string `envconfig:"DQ_NATS_CA" unit:"file" desc:"PEM certificates that sign the server's; empty: those of the system"`
	Cert  string `envconfig:"DQ_NATS_CERT" unit:"file" desc:"PEM client certificate, with DQ_NATS_KEY; empty: none"`
	Key   string `envconfig:"DQ_NATS_KEY" unit:"file" secret:"file" desc:"PEM key of DQ_NATS_CERT"`

	PushStream string `envconfig:"DQ_PUSH_STREAM" unit:"name" desc:"JetStream stream that pushes come through, and only through it; empty: core NATS"`
}

// Redis says how the bridge reaches its Redis server, Sentinel or cluster.
type Redis struct {
	URL  string `envconfig:"DQ_REDIS_URL" default:"redis://127.0.0.1:6379/0" unit:"URL" secret:"url" desc:"redis, rediss or unix; redis+cluster://h1:p,h2:p or redis+sentinel://h1:p,h2:p/master; rediss+… with TLS"`
	CA   string `envconfig:"DQ_REDIS_CA" unit:"file" desc:"PEM certificates that sign the server's; empty: those of the system"`
	Cert string `envconfig:"DQ_REDIS_CERT" unit:"file" desc:"PEM client certificate, with DQ_REDIS_KEY; empty: none"`
	Key  string `envconfig:"DQ_REDIS_KEY" unit:"file" secret:"file" desc:"PEM key of DQ_REDIS_CERT"`

	WaitReplicas int `envconfig:"DQ_REDIS_WAIT_REPLICAS" default:"0" unit:"number" desc:"Redis replicas that must hold a push before it is confirmed; 0: the master alone"`
}

// Store says where in Redis and NATS this installation lives, and how its tickers run.
type Store struct {
	Prefix  string        `envconfig:"DQ_PREFIX" default:"dq" unit:"name" desc:"first tokens of every subject and key"`
	Buckets int           `envconfig:"DQ_BUCKETS" default:"8" unit:"number" desc:"shards of the store, fixed at first use"`
	Tick    time.Duration `envconfig:"DQ_TICK" default:"1s" unit:"duration" desc:"the longest a bucket ticker sleeps; it wakes earlier for what it knows to be due"`
}

// Jobs holds what a job gets where it says nothing itself, and the limits of all jobs.
type Jobs struct {
	DefaultTTR  time.Duration `envconfig:"DQ_DEFAULT_TTR" default:"60s" unit:"duration" desc:"time to run of a job without a ttr; 0: gone once handed over"`
	MaxAttempts int           `envconfig:"DQ_MAX_ATTEMPTS" default:"0" unit:"number" desc:"deliveries before a job without max_attempts is dead; 0: no limit"`
	MaxDelay    time.Duration `envconfig:"DQ_MAX_DELAY" default:"87600h" unit:"duration" desc:"the longest delay or TTR a job may ask for"`
	MaxBody     int           `envconfig:"DQ_MAX_BODY" default:"1000000" unit:"bytes" desc:"the largest body"`
	MaxInflight int           `envconfig:"DQ_MAX_INFLIGHT" default:"1000" unit:"number" desc:"unfinished deliveries that one replica has out for one topic"`
}

// Dead says how long and how many dead jobs are kept.
type Dead struct {
	Retention time.Duration `envconfig:"DQ_DEAD_RETENTION" default:"336h" unit:"duration" desc:"how long a dead job is kept; 0: for ever"`
	Max       int           `envconfig:"DQ_DEAD_MAX" default:"1000000" unit:"number" desc:"how many dead jobs are kept, the oldest go first; 0: no limit"`
}

// HTTP says where the HTTP side listens and who may use it.
type HTTP struct {
	Addr  string `envconfig:"DQ_HTTP_ADDR" default:"127.0.0.1:8080" unit:"address" desc:"where HTTP listens; empty: off"`
	Token string `envconfig:"DQ_HTTP_TOKEN" unit:"secret" secret:"all" desc:"bearer token; empty: health and metrics only, unless on loopback"`
	Pprof bool   `envconfig:"DQ_PPROF" default:"false" unit:"true, false" desc:"profiles under /debug/pprof/, behind the token"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `envconfig:"DQ_LOG_LEVEL" default:"info" unit:"level" desc:"trace, debug, info, warn or error"`
	Format string `envconfig:"DQ_LOG_FORMAT" default:"auto" unit:"format" desc:"json, console or auto: console where stderr is a terminal"`
}

// Load reads the environment of the process, which is the only one that envconfig knows.
// Its error holds every fault, one a line, and no secret; the Config is good for nothing then.
func Load() (Config, error) {
	var cfg Config
	known := variables()
	found := &faults{unparsed: map[string]bool{}, reasons: map[string]string{}}
	for _, v := range known {
		if err := v.read(&cfg); err != nil {
			found.unparsed[v.name] = true
		}
	}
	cfg.check(found)

	unknown := unknownVariables(os.Environ(), known)
	return cfg, found.join(known, unknown)
}
