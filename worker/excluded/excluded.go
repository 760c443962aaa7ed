// Package excluded finds out which rows of a file its table has deleted: from deletion vectors of Delta Lake and
// Iceberg, and files of positions of Iceberg. It stands beside pipeline, which leaves these rows out. A Store may be
// used by any number of goroutines.
//
// What is read is part of the ticket's file, and checked: its ETag and checksum, that each row is one of the file, and
// their number, where the table says it.
package excluded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/memory"
)

// Room is the memory of who asks for rows.
type Room interface {
	Take(bytes int64) error
	Give(bytes int64)
}

// Unbounded is the Room of commands, which read one file after another.
type Unbounded struct{}

// Take implements Room.
func (Unbounded) Take(int64) error { return nil }

// Give implements Room.
func (Unbounded) Give(int64) {}

// Store keeps what was read lately, up to a number of bytes.
type Store struct {
	files *formats.Cache
	kept  *lru.Cache[key, told]

	mu      sync.Mutex
	loading map[key]chan struct{} // closed once it is read, or could not be
}

// key is a part of a file that tells of rows.
type key struct {
	profile, uri, etag string
	offset, length     int64
	form               pb.Excluded_Form
}

// told is what one tells: of several files, by their paths, or of one, whose path is "".
type told struct {
	byPath map[string]*Rows
	size   int64
}

// New returns a store that keeps at most limit bytes, or what one file tells.
func New(files *formats.Cache, limit int64) *Store {
	return &Store{files: files, kept: lru.New[key, told](limit), loading: map[key]chan struct{}{}}
}

// Size is the memory of what is kept.
func (s *Store) Size() int64 { return s.kept.Size() }

// Shrink forgets what is kept until n bytes are free, or nothing is left.
func (s *Store) Shrink(n int64) { s.kept.Shrink(n) }

// Of returns which rows of a file, which has so many, are excluded. It takes the set's Size of the room, and more while
// it reads. Errors name both files.
func (s *Store) Of(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, rows int64, room Room,
) (Set, error) {
	var set Set
	for _, e := range f.GetExcluded() {
		r := &reading{Store: s, storage: st, profile: profile, room: room}
		found, err := r.of(ctx, e, f, rows)
		if err == nil {
			err = check(found, e, rows)
		}
		if err != nil {
			return nil, failed(f, e, err)
		}
		if found != nil {
			set = append(set, found)
		}
	}
	return set, nil
}

// check fails for rows that cannot be excluded of a file that has so many.
func check(found *Rows, e *pb.Excluded, rows int64) error {
	if found == nil {
		return nil
	}
	if last, ok := found.last(); ok && last >= uint64(rows) {
		return fmt.Errorf("it names row %d, and the file has %d", last, rows)
	}
	want, exact := e.GetRows(), e.GetForm() != pb.Excluded_ICEBERG_POSITIONS // which may name a row twice
	if n := found.Len(); exact && want > 0 && n != want {
		return fmt.Errorf("it has %d rows, and the table says %d", n, want)
	}
	return nil
}

// failed is the error of rows that cannot be had.
func failed(f *pb.File, e *pb.Excluded, err error) error {
	switch {
	case e.GetUri() == "":
		return fmt.Errorf("%s: the deletion vector that its table has of it: %w: the table is damaged; repair it, or "+
			"read an earlier version", f.GetUri(), err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrChanged):
		return fmt.Errorf("%s: %s, which tells the rows that are deleted of it, is gone or another one: the version "+
			"of the table was vacuumed, or its snapshot expired; begin a new session over a version that there is: %w",
			f.GetUri(), e.GetUri(), err)
	case storage.IsTransient(err), storage.IsOurs(err), errors.Is(err, memory.ErrBusy), errors.Is(err, memory.ErrLimit):
		return fmt.Errorf("%s: %s, which tells the rows that are deleted of it: %w", f.GetUri(), e.GetUri(), err)
	}
	return fmt.Errorf("%s: %s, which tells the rows that are deleted of it, cannot be used: %w",
		f.GetUri(), e.GetUri(), err)
}

// reading reads one part of a file.
type reading struct {
	*Store
	storage storage.Storage
	profile string
	room    Room
	taken   int64 // of the room
}

func (r *reading) take(n int64) error {
	err := r.room.Take(n)
	if err == nil {
		r.taken += n
	}
	return err
}

func (r *reading) free(n int64) {
	r.room.Give(n)
	r.taken -= n
}

// of returns what is told of a file that has so many rows, and takes its Size; nil: nothing is.
func (r *reading) of(ctx context.Context, e *pb.Excluded, f *pb.File, rows int64) (*Rows, error) {
	all, err := r.told(ctx, e, rows)
	if err != nil {
		r.free(r.taken)
		return nil, err
	}
	path := ""
	if e.GetForm() == pb.Excluded_ICEBERG_POSITIONS {
		path = cmp.Or(e.GetPath(), f.GetUri())
	}
	found := all.byPath[path]
	size := int64(0)
	if found != nil {
		size = found.Size()
	}
	if size > r.taken {
		return found, r.take(size - r.taken)
	}
	r.free(r.taken - size)
	return found, nil
}

// told is what a part of a file tells, which is read if it is not kept. Of calls for one at once, one reads it.
func (r *reading) told(ctx context.Context, e *pb.Excluded, rows int64) (told, error) {
	if e.GetUri() == "" {
		content := int64(len(e.GetContent()))
		if err := r.take(content + mostBeside(content, rows)); err != nil {
			return told{}, err
		}
		return vectorOf(e.GetContent())
	}
	if storage.IsWeak(e) {
		return r.load(ctx, e, rows)
	}
	k := key{r.profile, e.GetUri(), e.GetEtag(), e.GetOffset(), e.GetLength(), e.GetForm()}
	for {
		if found, ok := r.kept.Get(k); ok {
			return found, nil
		}
		others, begun := r.begin(k)
		if begun {
			defer r.end(k)
			found, err := r.load(ctx, e, rows)
			if err == nil {
				r.kept.Put(k, found, found.size)
			}
			return found, err
		}
		select {
		case <-others:
		case <-ctx.Done():
			return told{}, context.Cause(ctx)
		}
	}
}

// begin notes that something is being read, unless it is so already: then others is closed at the end of that.
func (s *Store) begin(k key) (others <-chan struct{}, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if others, ok := s.loading[k]; ok {
		return others, false
	}
	s.loading[k] = make(chan struct{})
	return nil, true
}

func (s *Store) end(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.loading[k])
	delete(s.loading, k)
}

// load reads a part of a file.
func (r *reading) load(ctx context.Context, e *pb.Excluded, rows int64) (told, error) {
	file := &pb.File{Uri: e.GetUri(), Size: e.GetSize(), Etag: e.GetEtag()}
	switch e.GetForm() {
	case pb.Excluded_ICEBERG_POSITIONS:
		return r.positions(ctx, file)
	case pb.Excluded_DELTA_VECTOR, pb.Excluded_ICEBERG_VECTOR:
	default:
		return told{}, fmt.Errorf("its form %v is not known to this version", e.GetForm())
	}
	length := cmp.Or(e.GetLength(), file.GetSize()-e.GetOffset())
	if e.GetOffset() < 0 || length < 0 || length > file.GetSize()-e.GetOffset() {
		return told{}, fmt.Errorf("it has %d bytes, and the table says that %d at %d are the vector", file.GetSize(),
			length, e.GetOffset())
	}
	if err := r.take(length + mostBeside(length, rows)); err != nil {
		return told{}, err
	}
	data := []byte(nil)
	_, err := storage.ReadRanges(ctx, r.storage, r.profile, file,
		[]storage.Range{{Offset: e.GetOffset(), Length: length}}, storage.Reading{},
		func(n int64) ([]byte, error) {
			data = make([]byte, n)
			return data, nil
		})
	if err != nil {
		return told{}, err
	}
	vector, err := unframe(data)
	if err != nil {
		return told{}, err
	}
	return vectorOf(vector)
}

// vectorOf is what a vector tells.
func vectorOf(data []byte) (told, error) {
	rows, err := parseVector(data)
	if err != nil {
		return told{}, err
	}
	return told{map[string]*Rows{"": rows}, rows.size}, nil
}
