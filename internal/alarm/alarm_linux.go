package alarm

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dqbridge/dqbridge/internal/rawconn"
)

// kernelTimer is an alarm by a timer of the kernel that the runtime's poller watches. The runtime's own timers are up to a
// ms late in a process that is idle, which wakes up twice for each: what it tells epoll_wait is cut to whole ms, and
// rounded up below one (runtime/netpoll_epoll.go).
type kernelTimer struct {
	file *os.File
	fd   syscall.RawConn
}

// New makes an alarm that is not set. It gives the runtime's timers where the kernel has none to give.
func New() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimer()
	}
	a := kernelTimer{file: os.NewFile(uintptr(fd), "timer")}
	if a.fd, err = a.file.SyscallConn(); err == nil {
		err = a.file.SetReadDeadline(time.Time{}) // works only where the poller watches it
	}
	if err != nil {
		a.Close()
		return newTimer()
	}
	return a
}

func (a kernelTimer) Set(d time.Duration) {
	at := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would stop it
	_ = a.fd.Control(func(fd uintptr) {
		// A raw call for the reason that rawconn tells.
		_, _, _ = syscall.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(at)), 0, 0, 0)
	})
}

func (a kernelTimer) Wait() {
	var times [8]byte
	_ = a.fd.Read(func(fd uintptr) bool {
		_, err := rawconn.Read(fd, times[:])
		return err != syscall.EAGAIN
	})
}

func (a kernelTimer) Close() { _ = a.file.Close() }
