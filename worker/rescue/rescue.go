// Package rescue turns panics of a worker's streams into errors: what they read was written by others, and one bad
// file, or one op with a bug, must not end the streams of all the others. Any goroutine may use it.
package rescue

import (
	"fmt"
	"runtime/debug"
)

// Who is what panicked.
type Who string

// Those who may.
const (
	Decoder  Who = "the decoder" // of Parquet
	Pictures Who = "the picture decoder"
	Op       Who = "the op"
	Worker   Who = "the worker" // whatever else a stream does
)

// Decodes reports whether it works on bytes of a file, which may be left out: no bytes are known that make it panic,
// but if some do, they are the file's.
func (w Who) Decodes() bool { return w == Decoder || w == Pictures }

// PanicError is a panic that was turned into an error.
type PanicError struct {
	Who   Who
	Value any
	Stack []byte // for the worker's log; it is no part of the words, which go to trainers
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%s panicked, which is a bug of it; please report it with what the worker's log says: %v",
		e.Who, e.Value)
}

// As sets err to a *PanicError if the function that defers it panics.
func As(err *error, who Who) {
	if r := recover(); r != nil {
		*err = &PanicError{Who: who, Value: r, Stack: debug.Stack()}
	}
}

// Call calls f, and returns its error or a *PanicError.
func Call(who Who, f func() error) (err error) {
	defer As(&err, who)
	return f()
}
