package tables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/vector"
)

// room is the memory of a table that is being loaded.
type room struct {
	*memory.Account
	patience time.Duration
	paid     int64 // what was taken ahead of its use
}

// take takes n bytes, or gives as many back if n is negative.
func (m *room) take(ctx context.Context, n int64) error {
	if n <= 0 {
		m.Give(-n)
		return nil
	}
	ahead := min(n, m.paid)
	if n -= ahead; n > 0 && !m.Try(n) {
		ctx, cancel := context.WithTimeoutCause(ctx, m.patience, memory.ErrBusy)
		defer cancel()
		if err := m.Grow(ctx, n); err != nil {
			return fmt.Errorf("memory for it: %w", err)
		}
	}
	m.paid -= ahead
	return nil
}

// ahead takes n bytes that take takes no more then: all that is known to be needed, so that it fails before it is read.
func (m *room) ahead(ctx context.Context, n int64) error {
	err := m.take(ctx, n)
	if err == nil {
		m.paid += n
	}
	return err
}

// settle gives back what was not used of it.
func (m *room) settle() {
	m.Give(m.paid)
	m.paid = 0
}

// load reads a table.
func (s *Store) load(ctx context.Context, t *pb.Table, m *room) (*lookup.Table, error) {
	file, err := s.cfg.Files.Whole(ctx, s.cfg.Storage, t.GetStorage(), t.GetFile(), nil, t.GetColumns())
	if err != nil {
		return nil, err
	}
	l := &loading{store: s, about: t, room: m, file: file}
	l.builder = lookup.NewBuilder(merging(t), func(bytes int64) error { return m.take(ctx, bytes) })
	if err := l.bind(ctx); err != nil {
		return nil, err
	}
	if err := m.ahead(ctx, l.least()); err != nil {
		return nil, err
	}
	for _, extent := range l.extents() {
		if err := l.extent(ctx, extent); err != nil {
			return nil, fmt.Errorf("%s: %w", format.Name(file, extent), err)
		}
	}
	table, err := l.builder.Table()
	if err != nil {
		return nil, err
	}
	m.settle()
	return table, m.take(ctx, -l.allowed)
}

// loading is a table that is being read.
type loading struct {
	store   *Store
	about   *pb.Table
	room    *room
	file    format.File
	builder *lookup.Builder
	sources []*pb.Source // no two alike
	from    []int        // of which of them each column is
	bound   format.Bound
	decoder formats.Decoder
	allowed int64 // what the decoder may hold
}

// bind finds the table's columns in the file: a key that is a value, too, is read once.
func (l *loading) bind(ctx context.Context) (err error) {
	for _, c := range l.about.GetColumns() {
		at := slices.IndexFunc(l.sources, func(s *pb.Source) bool { return s.GetName() == c.GetName() })
		if at < 0 {
			at = len(l.sources)
			l.sources = append(l.sources, c)
		}
		l.from = append(l.from, at)
	}
	if l.bound, err = l.file.Bind(l.sources); err != nil {
		return err
	}
	if l.decoder, err = formats.New(l.file.Format(), l.sources); err != nil {
		return err
	}
	l.decoder.Memory().AskFor(func(least, _ int64) (int64, error) {
		err := l.room.take(ctx, least)
		if err == nil {
			l.allowed += least
		}
		return least, err
	})
	return nil
}

// extents are those that are read.
func (l *loading) extents() []int {
	var all []int
	for i := range l.file.Extents() {
		if only := l.about.GetExtents(); len(only) == 0 || slices.Contains(only, uint32(i)) {
			all = append(all, i)
		}
	}
	return all
}

// least is the least that the table takes: its scalars, and half a slot of the index for each row.
func (l *loading) least() (bytes int64) {
	for _, i := range l.extents() {
		rows := l.file.Extents()[i].Rows
		bytes += 4 * rows
		for _, c := range l.about.GetColumns()[l.about.GetKeys():] {
			if t := spec.TypeFromProto(c.GetType()); !t.List {
				bytes += rows * int64(spec.Width(t.Kind))
			}
		}
	}
	return bytes
}

// written is what is known of an extent's bytes; nil: nothing.
func (l *loading) written(extent int) *pb.Written {
	i := slices.Index(l.about.GetExtents(), uint32(extent))
	if all := l.about.GetWritten(); i >= 0 && i < len(all) {
		return all[i]
	}
	return nil
}

// extent reads one extent, and hands its rows to the builder.
func (l *loading) extent(ctx context.Context, at int) error {
	data, size, err := l.read(ctx, at)
	defer func() { l.room.Give(size) }()
	if err != nil {
		return err
	}
	chunks := make([]decode.Source, len(data))
	for i := range data {
		chunks[i] = (*decode.Whole)(&data[i])
	}
	if err := l.decoder.Reset(l.about.GetFile().GetUri(), l.bound, at, chunks); err != nil {
		return err
	}
	defer l.decoder.Forget()
	rows := l.file.Extents()[at]
	columns := make([]*vector.Vector, len(l.from))
	for done := int64(0); done < rows.Rows; {
		n := min(rows.Rows-done, lookup.PieceRows)
		vectors, err := formats.Rows(l.decoder, rows.FirstRow+done, int(n))
		if err != nil {
			return err
		}
		for i, from := range l.from {
			columns[i] = vectors[from]
		}
		if err := l.add(ctx, rows.FirstRow+done, columns); err != nil {
			return err
		}
		done += n
	}
	return context.Cause(ctx)
}

// read reads the bytes of an extent's columns, for which it takes some memory. Where it is known what was written, it
// reads all of that, and checks it.
func (l *loading) read(ctx context.Context, at int) (data [][]byte, size int64, err error) {
	chunks := make([]storage.Range, l.bound.Chunks())
	for i := range chunks {
		chunks[i] = l.bound.Chunk(at, i).Range
	}
	ranges, written := chunks, l.written(at)
	if written != nil {
		ranges = []storage.Range{{Offset: written.GetOffset(), Length: written.GetLength()}}
	}
	how := storage.Reading{}
	size = how.Size(ranges)
	if err := l.room.take(ctx, size); err != nil {
		return nil, 0, err
	}
	data, err = storage.ReadRanges(ctx, l.store.cfg.Storage, l.about.GetStorage(), l.about.GetFile(), ranges, how,
		func(n int64) ([]byte, error) { return make([]byte, n), nil })
	if err != nil || written == nil {
		return data, size, err
	}
	data, ok := checked(data[0], written, chunks)
	if !ok {
		return nil, size, fmt.Errorf("its bytes differ from those that were written of %s; write the file again with "+
			"`penstock fit`", l.about.GetStatistic())
	}
	return data, size, nil
}

// checked cuts chunks out of the bytes of an extent; false: these are not what was written.
func checked(whole []byte, written *pb.Written, chunks []storage.Range) ([][]byte, bool) {
	if sum := sha256.Sum256(whole); !bytes.Equal(sum[:], written.GetSha256()) {
		return nil, false
	}
	out := make([][]byte, len(chunks))
	for i, c := range chunks {
		from := c.Offset - written.GetOffset()
		to := from + c.Length
		if from < 0 || to < from || to > int64(len(whole)) {
			return nil, false
		}
		out[i] = whole[from:to:to]
	}
	return out, true
}

// add adds rows that begin at a row of the file.
func (l *loading) add(ctx context.Context, first int64, columns []*vector.Vector) error {
	if !l.about.GetEither() {
		return l.builder.Add(first, columns)
	}
	a, b := columns[0], columns[1]
	size := int64(len(a.Data) + len(b.Data) + 5*a.Rows)
	if err := l.room.take(ctx, size); err != nil {
		return err
	}
	defer func() { l.room.Give(size) }()
	return l.builder.Add(first, append([]*vector.Vector{merged(a, b, size)}, columns[2:]...))
}

// merging is a table whose first two columns are one.
func merging(t *pb.Table) *pb.Table {
	if !t.GetEither() {
		return t
	}
	t = proto.CloneOf(t)
	t.Columns = slices.Delete(t.Columns, 1, 2)
	return t
}

// merged has the values of a column of bytes, and where that is null those of another one: so many bytes at most.
func merged(a, b *vector.Vector, size int64) *vector.Vector {
	out := &vector.Vector{
		Type: a.Type, Rows: a.Rows, Ends: make([]int32, a.Rows+1), Valid: make([]uint64, vector.Words(a.Rows)),
		Data: make([]byte, 0, size),
	}
	for i := range a.Rows {
		from := a
		if a.IsNull(i) {
			from = b
		}
		if !from.IsNull(i) {
			out.Valid[i>>6] |= 1 << (i & 63)
			out.Data = append(out.Data, from.Data[from.Ends[i]:from.Ends[i+1]]...)
		}
		out.Ends[i+1] = int32(len(out.Data))
	}
	return out
}

// isGone reports whether the table's file is not there.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
