//go:build !unix

package child

import "syscall"

func attributes(syscall.Signal) *syscall.SysProcAttr { return nil }
