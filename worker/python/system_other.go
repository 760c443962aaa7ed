//go:build !linux

package python

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// Elsewhere than on Linux there is no memory to hand columns over in: no process comes to be.

func attributes(uint32) *syscall.SysProcAttr { return nil }

func forgo() {}

func peerOf(*net.UnixConn) (uint32, error) { return 0, errors.ErrUnsupported }

func adopt() error { return nil }

// Hide does nothing here.
func Hide() error { return nil }

func orphans(map[int]struct{}) []int { return nil }

func processesOf(uint32) []int { return nil }

func mayChangeUsers() error { return errors.ErrUnsupported }

func pair() (_, _ *os.File, err error) { return nil, nil, errors.ErrUnsupported }

func awaitEnd(int) error { return errors.ErrUnsupported }

func cpuOf(int) time.Duration { return 0 }

func memoryOf(int, int64, int64, bool) int64 { return 0 }
