package cache

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"
)

// newPrefix begins the names of what is being written.
const newPrefix = "value-"

// AnySize is the size of a value that is not known before it was written.
const AnySize = -1

// Writer writes a value. It is one goroutine's. Close it.
type Writer struct {
	cache    *Cache
	key      Key
	size     int64 // AnySize, or what it must become
	file     *os.File
	written  int64
	sums     []byte // of the blocks before this one
	sum      uint32 // of this one so far
	reserved int64
	kept     bool
	err      error
}

// Put keeps what write writes, of size bytes or AnySize, unless the key has a value: then they are equal.
func (c *Cache) Put(key Key, size int64, write func(io.Writer) error) error {
	w, err := c.Create(key, size)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := write(w); err != nil {
		return err
	}
	if err := w.Commit(); !errors.Is(err, ErrExists) {
		return err
	}
	return nil
}

// Create begins a value of size bytes, or AnySize. It makes room.
func (c *Cache) Create(key Key, size int64) (*Writer, error) {
	select {
	case <-c.loaded:
	default:
		return nil, ErrLoading
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	w := &Writer{cache: c, key: key, size: size}
	if err := w.reserve(cost(fileSize(max(size, 0)))); err != nil {
		return nil, err
	}
	err := c.persist(func() (err error) {
		if w.file, err = os.CreateTemp(c.newDir(), newPrefix); errors.Is(err, fs.ErrNotExist) {
			_ = os.MkdirAll(c.newDir(), 0o700) // somebody removed the folder; else the next line fails
			w.file, err = os.CreateTemp(c.newDir(), newPrefix)
		}
		return err
	})
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// reserve sees to it that n bytes are the writer's.
func (w *Writer) reserve(n int64) error {
	more := n - w.reserved
	if more <= 0 {
		return nil
	}
	if n > w.cache.max {
		return fmt.Errorf("cache: a value takes %d bytes, and all may take %d: %w", n, w.cache.max, ErrFull)
	}
	if err := w.cache.reserve(more); err != nil {
		return err
	}
	w.reserved = n
	return nil
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) && w.err == nil {
		part := p[n:min(len(p), n+int(block-w.written%block))]
		w.err = w.writePart(part)
		if w.err == nil {
			n += len(part)
		}
	}
	return n, w.err
}

// writePart writes a part of one block.
func (w *Writer) writePart(p []byte) error {
	after := w.written + int64(len(p))
	if w.size != AnySize && after > w.size {
		return fmt.Errorf("cache: more is written of value %s than its %d bytes", w.key, w.size)
	}
	if w.size == AnySize {
		// a whole block at once, unless only the end of it fits
		if w.reserve(cost(fileSize(blocks(after)*block))) != nil {
			if err := w.reserve(cost(fileSize(after))); err != nil {
				return err
			}
		}
	}
	if err := w.writeAll(p); err != nil {
		return err
	}
	w.sum = crc32.Update(w.sum, castagnoli(), p)
	if w.written = after; w.written%block == 0 {
		w.endBlock()
	}
	return nil
}

func (w *Writer) endBlock() {
	w.sums, w.sum = binary.LittleEndian.AppendUint32(w.sums, w.sum), 0
}

func (w *Writer) writeAll(p []byte) error {
	return w.cache.persist(func() error {
		n, err := w.cache.write(w.file, p)
		p = p[n:]
		return err
	})
}

// Commit keeps the value. It fails with ErrExists if the key has one; what was written can be read until Close, to be
// compared.
func (w *Writer) Commit() error {
	if w.err != nil {
		return w.err
	}
	if w.size != AnySize && w.written != w.size {
		return fmt.Errorf("cache: %d bytes are written of value %s, not %d: %w", w.written, w.key, w.size,
			io.ErrUnexpectedEOF)
	}
	if w.written%block != 0 {
		w.endBlock()
	}
	if w.err = w.writeAll(appendTail(w.sums, w.key, w.written)); w.err != nil {
		return w.err
	}
	w.err = w.cache.persist(w.name)
	return w.err
}

// name gives the file the name of its key.
func (w *Writer) name() error {
	err := w.rename()
	if errors.Is(err, fs.ErrNotExist) { // it is the folder's first, or somebody removed the folder
		_ = os.MkdirAll(w.cache.folderDir(int(w.key[0])), 0o700) // else the next line fails
		err = w.rename()
	}
	return err
}

func (w *Writer) rename() error {
	c := w.cache
	f := &c.folders[w.key[0]]
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := c.vacant(w.key); err != nil {
		return err
	}
	if err := os.Rename(w.file.Name(), c.path(w.key)); err != nil {
		return err
	}
	w.kept = true
	c.add(entry{key: w.key, size: fileSize(w.written), wanted: time.Now().UnixNano()})
	return nil
}

// vacant says why a key cannot have a value any more.
func (c *Cache) vacant(key Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if _, ok := c.index.of[key]; ok {
		return ErrExists
	}
	return nil
}

// add says that there is a file more.
func (c *Cache) add(e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.index.add(e)
	c.bytes += e.cost()
	if c.ranked {
		c.policy.Added(n, e.key)
	}
}

// ReadAt reads what was written: io.ReaderAt.
func (w *Writer) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(w.file, 0, w.written).ReadAt(p, off)
}

// Close ends the writing. What was not committed is gone.
func (w *Writer) Close() {
	w.cache.release(w.reserved)
	w.reserved = 0
	if w.file == nil {
		return
	}
	w.file.Close()
	if !w.kept {
		if err := os.Remove(w.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = w.cache.trip(err) // which logs it; the next start removes it
		}
	}
	w.file, w.err = nil, cmp.Or(w.err, ErrClosed)
}

// release gives bytes back that were set aside.
func (c *Cache) release(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= n
}
