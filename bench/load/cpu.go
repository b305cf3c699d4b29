package load

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of /proc/<pid>/stat: Linux gives 100 a second to user space on all its machines.
const tick = 10 * time.Millisecond

// meter reads how much CPU the processes of a run have used.
type meter struct {
	pids map[string]int
	from map[string]time.Duration
}

func startMeter(pids map[string]int) (*meter, error) {
	m := &meter{pids: pids}
	var err error
	m.from, err = m.read()
	return m, err
}

// stop sets what was used since the start, by job.
func (m *meter) stop(f *Figure, jobs int) error {
	to, err := m.read()
	if err != nil {
		return err
	}
	f.CPU, f.CPUOf = 0, make(map[string]float64, len(to))
	for name, used := range to {
		each := float64((used - m.from[name]).Microseconds()) / float64(max(jobs, 1))
		f.CPUOf[name] = each
		f.CPU += each
	}
	return nil
}

func (m *meter) read() (map[string]time.Duration, error) {
	used := make(map[string]time.Duration, len(m.pids)+1)
	for name, pid := range maps.All(m.pids) {
		d, err := processCPU(pid)
		if err != nil {
			return nil, fmt.Errorf("read CPU of %s: %w", name, err)
		}
		used[name] = d
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return nil, fmt.Errorf("read own CPU: %w", err)
	}
	used["client"] = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return used, nil
}

// processCPU is the time of a process and of its children that have ended.
func processCPU(pid int) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	const first, last = 11, 14 // utime, stime, cutime, cstime, counted after the name in parentheses
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= last {
		return 0, fmt.Errorf("unknown form: %s", data)
	}
	ticks := 0
	for _, field := range fields[first : last+1] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}
