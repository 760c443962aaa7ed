package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/dustin/go-humanize"
)

// verifyArranged compares inputs with an output that has the same rows in another order or in folders. The sum of all
// rows' hashes is that of the same rows in any order; the hashes begin with a seed that nobody knows before.
func verifyArranged(ctx context.Context, o Options, before, after *side) error {
	var folders *inFolders
	if len(o.PartitionBy) > 0 {
		folders = newInFolders(after, o.PartitionBy, before.schema())
		after.source = folders
	}
	m, err := match(before, after)
	if err != nil {
		return err
	}
	in := rowSum{seed: maphash.MakeSeed()}
	out := in
	if err := in.addAll(ctx, m, 0, before, nil); err != nil {
		return err
	}
	by, err := sortKeys(o.SortBy, after.schema())
	if err != nil {
		return err
	}
	if err := out.addAll(ctx, m, 1, after, &orderCheck{by: by, folders: folders}); err != nil {
		return err
	}
	if in != out {
		return fmt.Errorf("its %s rows are not the %s rows of the inputs", humanize.Comma(out.rows),
			humanize.Comma(in.rows))
	}
	return nil
}

// rowSum stands for a set of rows, of which some may be equal.
type rowSum struct {
	seed maphash.Seed
	rows int64
	sum  uint64
}

// addAll adds all rows of one of two sides that are matched.
func (r *rowSum) addAll(ctx context.Context, m *matched, of int, s *side, order *orderCheck) error {
	var row []byte
	for {
		rec, err := s.next(ctx, batchRows)
		if errors.Is(err, errEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.rec = rec; order != nil {
			if err := order.check(s); err != nil {
				return err
			}
		}
		keys := make([][]uint64, len(m.maps))
		for i, pair := range m.maps {
			keys[i] = pair.sums(r.seed, of, s, int(rec.NumRows()))
		}
		for i := range rec.NumRows() {
			row = row[:0]
			for _, p := range m.pairs {
				view := [2]*view{&p.a, &p.b}[of]
				row = appendCell(row, view.at(s, i))
			}
			for _, sums := range keys {
				row = binary.LittleEndian.AppendUint64(row, sums[i])
			}
			r.sum += maphash.Bytes(r.seed, row)
			r.rows++
		}
	}
}

// sums are, by row, the sums of the hashes of a side's keys with their values: those of a map, or of columns.
func (m *mapPair) sums(seed maphash.Seed, of int, s *side, n int) []uint64 {
	sums := make([]uint64, n)
	if m.maps[0] != nil && m.maps[1] != nil {
		for row := range sums {
			if m.maps[of].at(s, int64(row)).values == nil {
				sums[row] = 1
			}
		}
	}
	var text []byte
	for _, f := range m.features {
		c := keyComparison{mapPair: m, feature: f, numbers: map[mapKey]int32{}}
		rows := byRow(c.of(of, s, n), n)
		last := make([]*held, len(c.keys))
		for row, all := range rows {
			for i := range all {
				last[all[i].key] = &all[i]
			}
			for i := range all {
				h := last[all[i].key]
				if last[all[i].key] = nil; h == nil || isNone(h.from, h.at) {
					continue
				}
				name := c.label(c.keys[h.key], f)
				text = append(binary.AppendVarint(text[:0], int64(len(name))), name...)
				text = c.appendHeld(text, h)
				sums[row] += maphash.Bytes(seed, text)
			}
		}
	}
	return sums
}

func (c *keyComparison) appendHeld(to []byte, h *held) []byte {
	if c.field == "" {
		return appendPlain(to, h.from, h.at)
	}
	values, from, end := c.list(h)
	for k := from; k < end; k++ {
		to = appendPlain(to, values, k)
	}
	return to
}

// appendCell appends a value, or fields of the structs in it, as appendPlain does.
func appendCell(to []byte, c cell) []byte {
	switch {
	case c.values == nil:
		return append(to, 0)
	case len(c.fields) == 0:
		return appendPlain(to, c.values, c.i)
	}
	list := c.values.(array.ListLike)
	from, end := list.ValueOffsets(c.i)
	to = binary.AppendVarint(append(to, 1), end-from)
	for k := from; k < end; k++ {
		to = appendCell(to, cell{list.ListValues(), int(k), c.fields}.down())
	}
	return to
}

// appendPlain appends a value so that those, and only those, of the same written type that are equal are the same.
func appendPlain(to []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(to, 0)
	}
	to = append(to, 1)
	switch a := a.(type) {
	case *array.Null:
		return to
	case *array.Boolean:
		if a.Value(i) {
			return append(to, 1)
		}
		return append(to, 0)
	case *array.Struct:
		for f := range a.NumField() {
			to = appendPlain(to, a.Field(f), i)
		}
		return to
	case array.ListLike:
		from, end := a.ValueOffsets(i)
		to = binary.AppendVarint(to, end-from)
		for k := from; k < end; k++ {
			to = appendPlain(to, a.ListValues(), int(k))
		}
		return to
	case array.BinaryLike:
		text := textOf(a, i)
		return append(binary.AppendVarint(to, int64(len(text))), text...)
	}
	value := fixed(a, widthOf(a.DataType()), i, 1)
	if isNaN(a.DataType(), value) {
		return append(to, 1) // of this length no number is
	}
	return append(append(to, 0), value...)
}

// orderCheck checks that rows are sorted, in each folder.
type orderCheck struct {
	by        []sortKey
	folders   *inFolders // nil: there are none
	last, key []byte
	folder    string
}

func (c *orderCheck) check(s *side) error {
	if len(c.by) == 0 {
		return nil
	}
	if c.folders != nil && c.folders.folder != c.folder {
		c.folder, c.last = c.folders.folder, c.last[:0]
	}
	for row := range int(s.rec.NumRows()) {
		c.key = appendKey(c.key[:0], c.by, s.rec, row)
		if bytes.Compare(c.key, c.last) < 0 {
			return fmt.Errorf("%s belongs before the row before", s.where(int64(row)))
		}
		c.key, c.last = c.last, c.key
	}
	return nil
}

// inFolders is a source with columns that its files' folders stand for.
type inFolders struct {
	source
	in     *inputs
	fields []arrow.Field
	all    *arrow.Schema
	folder string // of the last record
	values []string
}

func newInFolders(s *side, columns []string, like *arrow.Schema) *inFolders {
	f := &inFolders{source: s.source, in: s.in, values: make([]string, len(columns))}
	for _, name := range columns {
		f.fields = append(f.fields, like.Field(columnNamed(like, name)))
	}
	f.all = arrow.NewSchema(slices.Concat(s.schema().Fields(), f.fields), nil)
	return f
}

func (f *inFolders) schema() *arrow.Schema { return f.all }

func (f *inFolders) next(ctx context.Context, limit int64) (arrow.Record, error) {
	rec, err := f.source.next(ctx, limit)
	if err != nil {
		return nil, err
	}
	name := f.in.name(f.behind().Input)
	if err := f.enter(path.Dir(name)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	columns := slices.Clone(rec.Columns())
	for i, of := range f.fields {
		values, err := partitionValues(of.Type, f.values[i], rec.NumRows())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		columns = append(columns, values)
	}
	return array.NewRecord(f.all, columns, rec.NumRows()), nil
}

// enter reads the names of the folders that a file lies in.
func (f *inFolders) enter(folder string) error {
	if folder == f.folder {
		return nil
	}
	f.folder = folder
	levels := strings.Split(folder, "/")
	levels = levels[max(0, len(levels)-len(f.fields)):]
	for i, of := range f.fields {
		name, value, found := "", "", i < len(levels)
		if found {
			name, value, found = strings.Cut(levels[i], "=")
		}
		var inName, inValue error
		if name, inName = url.PathUnescape(name); inName == nil {
			f.values[i], inValue = url.PathUnescape(value)
		}
		if !found || name != of.Name || inName != nil || inValue != nil {
			return fmt.Errorf("it lies in no folder of column %s", of.Name)
		}
	}
	return nil
}
