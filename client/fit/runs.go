package fit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/internal/fitted"
)

// run is a file of keys in ascending order, each once, with their counts:
//
//	for each: uvarint how many bytes it has in common with the one before, uvarint how many follow, these, uvarint count
//
// What it holds in all, and the hash of its bytes, is known elsewhere: to the set, and to the checkpoint's manifest.
type run struct {
	File  string `json:"file"`
	Keys  uint64 `json:"keys"`
	Bytes int64  `json:"bytes"`
	Hash  uint64 `json:"hash,string"`
	Level int    `json:"level"` // how often its keys were merged
}

// maxText bounds a text, so that no damaged file asks for more memory.
const maxText = fitted.MaxText

const runBuffer = 64 << 10

// runWriter writes a run.
type runWriter struct {
	run
	file *os.File
	buf  *bufio.Writer
	hash *xxhash.Digest
	last []byte
	head []byte
}

func createRun(dir, name string, level int) (*runWriter, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spill counts: %w", err)
	}
	w := &runWriter{run: run{File: name, Level: level}, file: f, hash: xxhash.New()}
	w.buf = bufio.NewWriterSize(io.MultiWriter(f, w.hash), runBuffer)
	return w, nil
}

// add appends a key, which is greater than the ones before.
func (w *runWriter) add(key []byte, count uint64) error {
	common := commonPrefix(w.last, key)
	rest := key[common:]
	w.head = binary.AppendUvarint(w.head[:0], uint64(common))
	w.head = binary.AppendUvarint(w.head, uint64(len(rest)))
	w.head = append(w.head, rest...)
	w.head = binary.AppendUvarint(w.head, count)
	w.last = append(w.last[:common], rest...)
	w.Keys++
	w.Bytes += int64(len(w.head))
	_, err := w.buf.Write(w.head)
	return err
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// end completes the file.
func (w *runWriter) end() (run, error) {
	err := errors.Join(w.buf.Flush(), w.file.Close())
	if err != nil {
		return run{}, fmt.Errorf("spill counts to %s: %w; make room there, or name another folder", w.file.Name(), err)
	}
	w.Hash = w.hash.Sum64()
	return w.run, nil
}

// writeRun writes what a source has.
func writeRun(dir, name string, level int, s source) (r run, err error) {
	w, err := createRun(dir, name, level)
	if err != nil {
		return run{}, err
	}
	defer func() {
		if err != nil {
			_ = w.file.Close()
			_ = os.Remove(w.file.Name())
		}
	}()
	for {
		ok, err := s.next()
		if err != nil {
			return run{}, err
		}
		if !ok {
			return w.end()
		}
		if err := w.add(s.key(), s.count()); err != nil {
			return run{}, fmt.Errorf("spill counts to %s: %w; make room there, or name another folder",
				w.file.Name(), err)
		}
	}
}

// runSource reads a run, whose bytes are checked on the way.
type runSource struct {
	run
	path string
	file io.ReadCloser
	buf  *bufio.Reader
	hash *xxhash.Digest
	left int64 // bytes
	seen uint64
	last []byte
	n    uint64
}

func openRun(dir string, r run) (*runSource, error) {
	f, err := os.Open(filepath.Join(dir, r.File))
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	return readRun(f, f.Name(), r), nil
}

func readRun(f io.ReadCloser, path string, r run) *runSource {
	s := &runSource{run: r, path: path, file: f, hash: xxhash.New(), left: r.Bytes}
	s.buf = bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, r.Bytes), s.hash), runBuffer)
	return s
}

func (s *runSource) key() []byte   { return s.last }
func (s *runSource) count() uint64 { return s.n }
func (s *runSource) close()        { _ = s.file.Close() }

// damaged is the error of a file that is not as it was written.
func (s *runSource) damaged(why string) error {
	return fmt.Errorf("counts in %s are damaged: %s; remove the folder, and fit from the start", s.path, why)
}

func (s *runSource) next() (bool, error) {
	if s.seen == s.Keys {
		return false, s.ended()
	}
	common, err := s.uvarint()
	if err != nil {
		return false, err
	}
	rest, err := s.uvarint()
	if err != nil {
		return false, err
	}
	switch {
	case common > uint64(len(s.last)):
		return false, s.damaged("a value goes on from a shorter one")
	case rest > uint64(s.left) || rest > maxText+8:
		return false, s.damaged("a value goes beyond the end")
	case s.seen > 0 && common == uint64(len(s.last)) && rest == 0:
		return false, s.damaged("a value comes twice")
	}
	from := int(common)
	before := byte(0)
	if from < len(s.last) {
		before = s.last[from]
	}
	ascends := from == len(s.last)
	if s.last, err = s.bytes(s.last[:from], int(rest)); err != nil {
		return false, err
	}
	if s.seen > 0 && !ascends && (rest == 0 || s.last[from] <= before) {
		return false, s.damaged("values do not ascend")
	}
	if s.n, err = s.uvarint(); err != nil {
		return false, err
	}
	if s.n == 0 {
		return false, s.damaged("a value has the count 0")
	}
	s.seen++
	return true, nil
}

// bytes appends the next n bytes. Memory is asked for as they come.
func (s *runSource) bytes(to []byte, n int) ([]byte, error) {
	s.left -= int64(n)
	for n > 0 {
		part := min(n, runBuffer)
		at := len(to)
		to = append(to, make([]byte, part)...)
		if _, err := io.ReadFull(s.buf, to[at:]); err != nil {
			return to, s.damaged(err.Error())
		}
		n -= part
	}
	return to, nil
}

func (s *runSource) uvarint() (uint64, error) {
	v, err := binary.ReadUvarint(s.buf)
	if err != nil {
		return 0, s.damaged(err.Error())
	}
	s.left -= int64(uvarintLen(v))
	if s.left < 0 {
		return 0, s.damaged("a value goes beyond the end")
	}
	return v, nil
}

func uvarintLen(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}

// ended checks the file as a whole.
func (s *runSource) ended() error {
	if _, err := s.buf.ReadByte(); !errors.Is(err, io.EOF) {
		return s.damaged("it has more values than were written")
	}
	if s.hash.Sum64() != s.Hash {
		return s.damaged("its bytes differ from those written")
	}
	return nil
}
