package pipeline

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was turned into an error.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("the worker panicked, which is a bug of it; please report what its log says: %v", e.Value)
}

// Rescue calls f and turns a panic into a PanicError. Each goroutine of a stream runs under it: no panic is known,
// but what is read was written by others, and one bad file must not end the streams of all the others.
func Rescue(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return f()
}
