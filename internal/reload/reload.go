// Package reload reads files that change while a process runs: tokens, keys, rights. A File may be used by many goroutines
// at once, and has none of its own: whoever asks for its value looks at the file, once a second at most.
package reload

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// every is how often a file is looked at, at most.
	every = time.Second
	// maxBytes bounds a file.
	maxBytes = 4 << 20
)

// File is what a file means now.
type File[T any] struct {
	path    string
	parse   func([]byte) (T, error)
	refused func(error)

	mu     sync.Mutex
	looked time.Time
	text   []byte // that was parsed last, successfully or not
	failed string // how it could not be read last
	value  T
}

// Open reads and parses a file. One that cannot be read or parsed later leaves the value as it was: refused, if it is not nil, is told
// why, once for each cause.
func Open[T any](path string, parse func([]byte) (T, error), refused func(error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse, refused: refused, looked: time.Now()}
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	f.text = text
	f.value, err = parse(text)
	return f, err
}

// Get returns the newest value.
func (f *File[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked) < every {
		return f.value
	}
	f.looked = now
	text, err := read(f.path)
	if err != nil {
		f.say(err)
		return f.value
	}
	f.failed = ""
	if bytes.Equal(text, f.text) {
		return f.value
	}
	f.text = text
	if next, err := f.parse(text); err != nil {
		f.say(err)
	} else {
		f.value = next
	}
	return f.value
}

// say tells of a failure, unless it is the last one again.
func (f *File[T]) say(err error) {
	if f.refused != nil && err.Error() != f.failed {
		f.refused(fmt.Errorf("%w; what the file said before stays in force", err))
	}
	f.failed = err.Error()
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes; it may have %d", path, info.Size(), maxBytes)
	}
	return os.ReadFile(path)
}
