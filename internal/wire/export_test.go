package wire

import (
	"bufio"
	"bytes"
	"iter"
	"unsafe"
)

// Misaligned reports whether b does not begin at a multiple of Alignment.
func Misaligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Alignment != 0 }

// ReadLink reads the messages that came on a link, until they are refused.
func ReadLink(data []byte, pool *Pool) iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		l := &link{in: bufio.NewReaderSize(bytes.NewReader(data), ahead)}
		m := NewMessage(pool)
		for l.receive(m) == nil && yield(m) {
		}
	}
}

// LinkBytes are those of a batch on a link.
func LinkBytes(b *Batch, pool *Pool) []byte {
	p := pool.parcel()
	p.line(b, None)
	return bytes.Join(p.pieces, nil)
}
