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
	// busy and all are those of the machine at the start.
	busy, all float64
}

func startMeter(pids map[string]int) (*meter, error) {
	m := &meter{pids: pids}
	var err error
	if m.busy, m.all, err = machineCPU(); err != nil {
		return nil, err
	}
	m.from, err = m.read()
	return m, err
}

// stop sets what was used since the start, by job.
func (m *meter) stop(f *Figure, jobs int) error {
	to, err := m.read()
	if err != nil {
		return err
	}
	busy, all, err := machineCPU()
	if err != nil {
		return err
	}
	f.CPU, f.CPUOf = 0, make(map[string]float64, len(to))
	f.Others = (busy - m.busy) / max(all-m.all, 1)
	for name, used := range to {
		each := float64((used - m.from[name]).Microseconds()) / float64(max(jobs, 1))
		f.CPUOf[name] = each
		f.CPU += each
		f.Others -= (used - m.from[name]).Seconds() / max((all-m.all)*tick.Seconds(), 1)
	}
	f.Others = max(f.Others, 0)
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

// machineCPU is how many ticks the processors of this machine were busy, and how many there were, since it started.
func machineCPU() (float64, float64, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	const idle, wait, guest = 3, 4, 8 // counted after the name; guests are in the others already
	var busy, all float64
	for i, field := range bytes.Fields(line)[1:] {
		n, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read CPU of the machine: %w", err)
		}
		if i >= guest {
			break
		}
		all += n
		if i != idle && i != wait {
			busy += n
		}
	}
	return busy, all, nil
}
