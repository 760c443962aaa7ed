// Package object holds the few words that package storage and its backends (file, s3) share: what to list and
// what kinds of errors there are. It has no state.
package object

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrChanged says that a file is no longer the one that was listed.
var ErrChanged = errors.New("the file has changed since it was listed")

// ErrDenied says that a service does not let its caller read, or does not say whether there is anything to read.
var ErrDenied = errors.New("access denied")

// ErrNoFolders says that a store does not list what lies in a folder.
var ErrNoFolders = fmt.Errorf("web servers do not list folders, and wildcards need it; name the files, such as "+
	"https://data.example.org/shard-{000..099}.tar: %w", fs.ErrNotExist)

// Query says what to list.
type Query struct {
	// Prefix of the files' URIs.
	Prefix string
	// Flat leaves out files with a "/" after the prefix.
	Flat bool
	// Enter reports whether files below a directory (its URI ends in "/") are wanted; a backend need not ask.
	Enter func(dir string) bool
	// After is a URI: files up to it need not be listed again.
	After string
	// Mark, if not nil, is where a listing goes on that was cut, in the backend's own words: one that sets it takes it
	// when it is asked again, and hands no file twice. After is then nothing to it.
	Mark *string
	// Passed, if not nil, is called for what a backend passes over: it may be much, and then no file is found for long.
	Passed func()
	// Dangling, if not nil, is called for names that lead to nothing: links of disks.
	Dangling func(uri string)
}

// Pass calls Passed.
func (q Query) Pass() {
	if q.Passed != nil {
		q.Passed()
	}
}

// Transient marks an error that may well go away by itself.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return transient{error: err}
}

// Later marks an error as Transient that may go away after a time, as a service that is asked too much says. Whoever
// tries again decides whether to wait that long.
func Later(err error, after time.Duration) error { return transient{err, after} }

// After is the time that Later was told; 0: none.
func After(err error) time.Duration {
	var t transient
	errors.As(err, &t)
	return t.after
}

// IsTransient reports whether err was marked by Transient.
func IsTransient(err error) bool {
	var t transient
	return errors.As(err, &t)
}

type transient struct {
	error
	after time.Duration
}

func (t transient) Unwrap() error { return t.error }

// Ours marks an error that is due to this process: another one may read the file.
func Ours(err error) error { return ours{err} }

// IsOurs reports whether err was marked by Ours.
func IsOurs(err error) bool {
	var o ours
	return errors.As(err, &o)
}

type ours struct{ error }

func (o ours) Unwrap() error { return o.error }
