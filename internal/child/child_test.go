package child_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dqbridge/dqbridge/internal/child"
)

// parentVariable makes the test binary a parent that is killed, see TestDiesWithItsParent.
const parentVariable = "CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		parent()
		return
	}
	goleak.VerifyTestMain(m)
}

func parent() {
	p, err := child.Start(exec.Command("sleep", "60"), syscall.SIGTERM)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Pid())
	<-p.Done()
}

func start(t *testing.T, args ...string) *child.Process {
	t.Helper()
	p, err := child.Start(exec.Command(args[0], args[1:]...), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	if p := start(t, "true"); p.ExitCode() != 0 || p.Err() != nil || p.Running() {
		t.Errorf("true: %d, %v", p.ExitCode(), p.Err())
	}
	p := start(t, "sh", "-c", "exit 3")
	if p.ExitCode() != 3 || p.Err() == nil {
		t.Errorf("exit 3: %d, %v", p.ExitCode(), p.Err())
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal to what has ended: %v", err)
	}
	if _, err := child.Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil {
		t.Error("no error for a missing program")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep", "60")
	if !p.Running() {
		t.Error("does not run")
	}
	p.Stop(10 * time.Second)
	if p.ExitCode() != -1 {
		t.Errorf("exit code %d", p.ExitCode())
	}
	// One that does not listen to SIGTERM: frozen.
	p = start(t, "sleep", "60")
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Stop(10 * time.Millisecond)
	if p.Running() {
		t.Error("still runs")
	}
}

func TestDiesWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can do that")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // it must not die of its starting thread either
	if !lives(pid) {
		t.Fatal("the child ended before its parent")
	}
	if err = cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for begin := time.Now(); lives(pid); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child outlives its parent")
		}
	}
}

// lives is false for a process that is gone, and for one that only waits to be collected by whoever inherited it.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
