package wire

import "unsafe"

// Misaligned reports whether b does not begin at a multiple of Alignment.
func Misaligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Alignment != 0 }
