//go:build !linux

package process

import "syscall"

// maxRSS is in bytes on the BSDs and macOS.
func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss }
