package process

import "syscall"

// maxRSS is in kilobytes on Linux.
func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss << 10 }
