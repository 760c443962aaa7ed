package index

import (
	"encoding/binary"
	"errors"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

// restarts is the stored form of those that extents begin with.
type restarts struct {
	data []byte
	n    int
	last int // whose extent was told
}

func (s *restarts) add(extent int, r *format.Restart) {
	out := binary.AppendUvarint(s.data, uint64(extent-s.last))
	out = append(out, r.Bit)
	out = binary.LittleEndian.AppendUint32(out, r.CRC)
	out = binary.AppendUvarint(out, uint64(r.Size))
	s.data = append(out, r.Window...)
	s.n, s.last = s.n+1, extent
}

// restartReader reads restarts.
type restartReader struct {
	reader
	n uint64 // that are left

	begun  bool
	extent uint64 // that the one begins which was read last
	head   []byte
	size   int64
	window []byte
}

func (x *Index) readRestarts() *restartReader {
	r := &restartReader{reader: reader{left: x.restarts}}
	r.n = r.number()
	return r
}

// next reads one; false: there is none, or it cannot be read.
func (r *restartReader) next() bool {
	if r.failed || r.n == 0 {
		return false
	}
	more := r.number()
	r.failed = r.failed || r.begun && more == 0
	r.begun, r.extent = true, r.extent+more
	r.head = r.bytes(5)
	r.size = int64(r.number())
	r.window = r.bytes(int(min(r.size, format.MaxWindow)))
	r.n--
	return !r.failed
}

// restart is the one that was read. Its window lies in the index.
func (r *restartReader) restart() *format.Restart {
	return format.NewRestart(r.head[0], binary.LittleEndian.Uint32(r.head[1:]), r.size, r.window)
}

// checkRestarts fails unless each begins an extent, and they are in order.
func (x *Index) checkRestarts() error {
	r := x.readRestarts()
	for r.next() {
		if r.extent >= uint64(x.n) {
			return errors.New("a restart of its index begins no extent")
		}
	}
	if r.failed || len(r.left) > 0 {
		return errors.New("the restarts of its index cannot be")
	}
	return nil
}

// bytes reads so many.
func (r *reader) bytes(n int) []byte {
	if n > len(r.left) {
		r.failed = true
		return nil
	}
	out := r.left[:n:n]
	r.left = r.left[n:]
	return out
}
