//go:build !darwin

package process

// hardwareMemory is 0: where there is no /proc, it is not known.
func hardwareMemory() int64 { return 0 }
