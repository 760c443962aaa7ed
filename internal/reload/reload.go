// Package reload reads files that change while a process runs: tokens, keys, rights. A File may be used by many
// goroutines at once, and has none of its own: whoever asks for its value looks at the file, once a second at most.
// What changed is taken once nobody has written for a second: half a file may give more rights than all of it.
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

// Open reads and parses a file. One that cannot be read or parsed later leaves the value as it was: refused, if it is
// not nil, is told why, once for each cause.
func Open[T any](path string, parse func([]byte) (T, error), refused func(error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse, refused: refused, looked: time.Now()}
	text, _, err := read(path)
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
	text, written, err := read(f.path)
	if err != nil {
		f.say(err)
		return f.value
	}
	f.failed = ""
	if age := now.Sub(written); bytes.Equal(text, f.text) || age >= 0 && age < every {
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

// read returns a file's text, and when it was written last.
func read(path string) ([]byte, time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	if info.Size() > maxBytes {
		return nil, time.Time{}, fmt.Errorf("%s has %d bytes; it may have %d", path, info.Size(), maxBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	if info, err = os.Stat(path); err != nil { // once more: it may have been written while it was read
		return nil, time.Time{}, err
	}
	return text, info.ModTime(), nil
}
