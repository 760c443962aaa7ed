package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// Value is what a key has. It may be used by many goroutines at once. Each block is checked before its first byte is
// handed out. Once all of a file's blocks were, this process believes it.
type Value struct {
	cache *Cache
	key   Key
	stamp uint32
	file  *os.File
	size  int64
	sums  []byte
	sum   uint32

	mu      sync.Mutex
	checked []uint64 // a bit a block
	left    int64    // blocks that are not checked
}

// open opens the file of an entry.
func (c *Cache) open(key Key, e entry) (_ *Value, err error) {
	file, err := os.Open(c.path(key))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size, ok := valueSize(info.Size())
	if !ok || info.Size() != e.size {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", errDamaged, info.Size(), e.size)
	}
	trailer := make([]byte, e.size-size)
	if _, err := file.ReadAt(trailer, size); err != nil {
		return nil, err
	}
	v := &Value{cache: c, key: key, stamp: e.stamp, file: file, size: size}
	if v.sums, v.sum, err = parseTrailer(trailer, key, size); err != nil {
		return nil, err
	}
	if n := blocks(size); !e.checked && n > 0 {
		v.left, v.checked = n, make([]uint64, (n+63)/64)
	}
	return v, nil
}

// Size is how many bytes the value has.
func (v *Value) Size() int64 { return v.size }

// Sum is a checksum of the value and its key.
func (v *Value) Sum() uint32 { return v.sum }

// Close ends the reading of the value.
func (v *Value) Close() { v.file.Close() }

// ReadAt implements io.ReaderAt. A value that cannot be read any more is a miss, too: it is removed.
func (v *Value) ReadAt(p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, errors.New("cache: read before a value's begin")
	case off >= v.size:
		return 0, io.EOF
	case int64(len(p)) > v.size-off:
		p, err = p[:v.size-off], io.EOF
	}
	for n < len(p) {
		part := p[n:min(len(p), n+int(block-(off+int64(n))%block))]
		if bad := v.readBlock(part, off+int64(n)); bad != nil {
			return n, bad
		}
		n += len(part)
	}
	return n, err
}

// readBlock reads a part of one block.
func (v *Value) readBlock(p []byte, off int64) error {
	b := off / block
	if v.isChecked(b) {
		_, err := v.file.ReadAt(p, off)
		return v.failed(err)
	}
	size := min(block, v.size-b*block)
	if int64(len(p)) == size {
		return v.check(p, b)
	}
	buffer := buffers.Get().(*[block]byte) //nolint:forcetypeassert // the pool has nothing else
	defer buffers.Put(buffer)
	if err := v.check(buffer[:size], b); err != nil {
		return err
	}
	copy(p, buffer[off%block:])
	return nil
}

// buffers are blocks of which only a part is wanted.
var buffers = sync.Pool{New: func() any { return new([block]byte) }} //nolint:gochecknoglobals // only spare memory

// check reads a whole block, and compares its checksum.
func (v *Value) check(p []byte, b int64) error {
	if _, err := v.file.ReadAt(p, b*block); err != nil {
		return v.failed(err)
	}
	if crc32.Checksum(p, castagnoli()) != binary.LittleEndian.Uint32(v.sums[4*b:]) {
		return v.failed(fmt.Errorf("%w: the checksum of block %d is another one", errDamaged, b))
	}
	v.mark(b)
	return nil
}

// failed removes the value if it failed.
func (v *Value) failed(err error) error {
	if err == nil {
		return nil
	}
	v.cache.spoil(v.key, v.stamp, err)
	return fmt.Errorf("cache: value %s: %w", v.key, err)
}

func (v *Value) isChecked(b int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.left == 0 || v.checked[b/64]&(1<<(b%64)) != 0
}

func (v *Value) mark(b int64) {
	if v.markOne(b) {
		v.cache.believe(v.key, v.stamp)
	}
}

// markOne reports whether it was the last block.
func (v *Value) markOne(b int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.left == 0 || v.checked[b/64]&(1<<(b%64)) != 0 {
		return false
	}
	v.checked[b/64] |= 1 << (b % 64)
	v.left--
	return v.left == 0
}

// believe says that all checksums of an entry are right.
func (c *Cache) believe(key Key, stamp uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.index.of[key]; ok && c.index.entries[n].stamp == stamp {
		c.index.entries[n].checked = true
	}
}

// File returns the value's file after all of it was checked, for sendfile. The value is its first Size bytes. It is
// closed with the value, and its place in the file is nobody else's.
func (v *Value) File() (*os.File, error) {
	for b := range blocks(v.size) {
		if err := v.touch(b); err != nil {
			return nil, err
		}
	}
	return v.file, nil
}

// touch checks a block, if it is not.
func (v *Value) touch(b int64) error {
	if v.isChecked(b) {
		return nil
	}
	buffer := buffers.Get().(*[block]byte) //nolint:forcetypeassert // see above
	defer buffers.Put(buffer)
	return v.check(buffer[:min(block, v.size-b*block)], b)
}
