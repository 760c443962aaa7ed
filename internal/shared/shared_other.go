//go:build !linux

package shared

import "errors"

// Make fails: there is no such memory here.
func Make(int, func(bytes int64)) (*Memory, error) { return nil, errors.ErrUnsupported }

// Workspace fails, too.
func Workspace(int, func(bytes int64)) (*Memory, error) { return nil, errors.ErrUnsupported }

// Map fails, too.
func Map(int, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap has nothing to do.
func Unmap([]byte) {}

// File is none.
func (m *Memory) File() int { return m.file }

// Free has nothing to do.
func (m *Memory) Free() {}
