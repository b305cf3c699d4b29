package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is what the tests of one binary have in common. It is a package variable because Go gives TestMain and the
// tests no other way to hand something over.
var shared sharedThings

type sharedThings struct {
	mu      sync.Mutex // guards all below
	running bool       // between the start and the end of Main
	redis   *redisServer
	binary  string // path of the built dqbridge
	dir     string // holds binary
	buildIt error  // why binary is not there

	variants    map[string]string // paths of other builds, by version
	variantDirs []string          // hold them
}

// Main runs the tests of a package, ends what they shared, and fails the run when a goroutine is left over.
func Main(m *testing.M) { goleak.VerifyTestMain(runner{m}) }

// runner ends the shared things between the last test and the search for leaks.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	shared.setRunning(true)
	defer shared.stop()
	return r.m.Run()
}

// SharedRedis is the Redis of this test binary, started by the first test that wants it. Its RedisServer can be used
// and looked at, but not stopped or killed: other tests run on it.
func SharedRedis(tb testing.TB) *RedisServer {
	tb.Helper()
	server, err := shared.startRedis()
	if err != nil {
		tb.Fatal(err)
	}
	return &RedisServer{t: tb, server: server, shared: true}
}

// Build builds the dqbridge binary, once in a run of the test binary, and gives its path. With -race the binary has
// the race detector too, and exits with 66 when it found a race.
func Build(tb testing.TB) string {
	tb.Helper()
	path, err := shared.build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// BuildVariant builds the binary from changed sources, once for each version in a run of the test binary, and gives its
// path: change holds for each file, named from the module's root, what makes another text of its text. The sources
// themselves stay as they are.
func BuildVariant(tb testing.TB, version string, change map[string]func(text string) string) string {
	tb.Helper()
	path, err := shared.buildVariant(version, change)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func (s *sharedThings) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
}

func (s *sharedThings) startRedis() (*redisServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkMain(); err != nil {
		return nil, err
	}
	if s.redis != nil {
		return s.redis, nil
	}
	server, err := startRedis(nil)
	if err != nil {
		return nil, err
	}
	s.redis = server
	return server, nil
}

func (s *sharedThings) build() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkMain(); err != nil {
		return "", err
	}
	if s.binary != "" || s.buildIt != nil {
		return s.binary, s.buildIt
	}
	s.buildIt = s.buildBinary()
	return s.binary, s.buildIt
}

func (s *sharedThings) buildBinary() error {
	dir, err := os.MkdirTemp("", "dqbridge-bin")
	if err != nil {
		return err
	}
	s.dir = dir
	path := filepath.Join(dir, "dqbridge")
	if err := goBuild(path); err != nil {
		return err
	}
	s.binary = path
	return nil
}

func (s *sharedThings) buildVariant(version string, change map[string]func(text string) string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkMain(); err != nil {
		return "", err
	}
	if path := s.variants[version]; path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "dqbridge-variant")
	if err != nil {
		return "", err
	}
	s.variantDirs = append(s.variantDirs, dir)
	overlay, err := writeOverlay(dir, change)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "dqbridge")
	if err := goBuild(path, "-overlay", overlay, "-ldflags", "-X main.stamp="+version); err != nil {
		return "", err
	}
	if s.variants == nil {
		s.variants = make(map[string]string)
	}
	s.variants[version] = path
	return path, nil
}

// writeOverlay writes changed sources and the file that tells go build of them.
func writeOverlay(dir string, change map[string]func(text string) string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	replace := make(map[string]string)
	for name, changed := range change {
		source := filepath.Join(root, filepath.FromSlash(name))
		before, readErr := os.ReadFile(source)
		if readErr != nil {
			return "", readErr
		}
		after := changed(string(before))
		if after == string(before) {
			return "", fmt.Errorf("the variant of %s is the same", name)
		}
		replace[source] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err = os.WriteFile(replace[source], []byte(after), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o600)
}

const module = "github.com/dqbridge/dqbridge"

func goBuild(path string, flags ...string) error {
	args := append([]string{"build", "-o", path}, flags...)
	if RaceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, module)...).CombinedOutput()
	if err != nil {
		return errors.New("build dqbridge: " + err.Error() + "\n" + string(out))
	}
	return nil
}

func (s *sharedThings) checkMain() error {
	if !s.running {
		return errors.New("testenv: the package lacks `func TestMain(m *testing.M) { testenv.Main(m) }`")
	}
	return nil
}

func (s *sharedThings) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.redis != nil {
		s.redis.remove()
		s.redis = nil
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	for _, dir := range s.variantDirs {
		_ = os.RemoveAll(dir)
	}
	s.binary, s.dir, s.buildIt, s.variants, s.variantDirs = "", "", nil, nil, nil
}
