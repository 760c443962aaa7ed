package reference

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// excluded are the rows of a file that its table has deleted.
func (in *Interpreter) excluded(ctx context.Context, f *pb.File) (map[int64]bool, error) {
	gone := map[int64]bool{}
	for _, e := range f.GetExcluded() {
		if err := in.exclude(ctx, f, e, gone); err != nil {
			return nil, fmt.Errorf("rows that are deleted, by %q: %w", e.GetUri(), err)
		}
	}
	return gone, nil
}

func (in *Interpreter) exclude(ctx context.Context, f *pb.File, e *pb.Excluded, gone map[int64]bool) error {
	if e.GetUri() == "" {
		return bitmaps(e.GetContent(), gone)
	}
	file := &pb.File{Uri: e.GetUri(), Size: e.GetSize(), Etag: e.GetEtag()}
	if e.GetForm() == pb.Excluded_ICEBERG_POSITIONS {
		path := e.GetPath()
		if path == "" {
			path = f.GetUri()
		}
		return in.positions(ctx, file, path, gone)
	}
	data, err := in.read(ctx, file)
	if err != nil {
		return err
	}
	data = data[e.GetOffset():]
	if e.GetLength() > 0 {
		data = data[:e.GetLength()]
	}
	n := len(data)
	if n < 8 || int(binary.BigEndian.Uint32(data)) != n-8 ||
		crc32.ChecksumIEEE(data[4:n-4]) != binary.BigEndian.Uint32(data[n-4:]) {
		return errors.New("its length or checksum is wrong")
	}
	return bitmaps(data[4:n-4], gone)
}

// positions reads a file of positions, of which those of one file count.
func (in *Interpreter) positions(ctx context.Context, file *pb.File, path string, gone map[int64]bool) error {
	f, err := in.openFile(ctx, file, nil)
	if err != nil {
		return err
	}
	s := scan{file: f}
	var paths, rows filler
	for _, c := range f.columns {
		switch c.name {
		case "file_path":
			paths, err = s.bind(c, "")
		case "pos":
			rows, err = s.bind(c, "")
		}
		if err != nil {
			return err
		}
	}
	if paths == nil || rows == nil {
		return errors.New("it has no columns file_path and pos")
	}
	return s.rows(ctx, func(int64) {}, func() error {
		var of, row cell
		if err := errors.Join(paths(&of), rows(&row)); err != nil || of.null || row.null {
			return errors.Join(err, errors.New("it has nulls"))
		}
		if string(of.texts[0]) == path {
			gone[row.ints[0]] = true
		}
		return nil
	})
}

// words reads little-endian numbers from the front of data. What is missing is an error at the end.
type words struct {
	data []byte
	cut  bool
}

func (w *words) take(n int) []byte {
	if n > len(w.data) {
		w.cut = true
		return make([]byte, n)
	}
	out := w.data[:n]
	w.data = w.data[n:]
	return out
}

func (w *words) u16() int { return int(binary.LittleEndian.Uint16(w.take(2))) }

func (w *words) u32() uint32 { return binary.LittleEndian.Uint32(w.take(4)) }

// bitmaps reads a deletion vector, by the specification of roaring bitmaps.
func bitmaps(data []byte, gone map[int64]bool) error {
	w := &words{data: data}
	if w.u32() != 0x6439d3d1 {
		return errors.New("it is no deletion vector")
	}
	for n := binary.LittleEndian.Uint64(w.take(8)); n > 0 && !w.cut; n-- {
		high := int64(w.u32()) << 32
		if err := w.bitmap(func(low int64) { gone[high|low] = true }); err != nil {
			return err
		}
	}
	if w.cut || len(w.data) > 0 {
		return errors.New("it is cut short, or too long")
	}
	return nil
}

// bitmap reads one of 32 bits: its containers' keys and cardinalities, where they lie, and then each of them.
func (w *words) bitmap(row func(int64)) error {
	cookie, runs := w.u32(), []byte(nil)
	var count int
	switch {
	case cookie&0xffff == 12347:
		count = int(cookie>>16) + 1
		runs = w.take((count + 7) / 8)
	case cookie == 12346:
		count = int(w.u32())
	default:
		return fmt.Errorf("%d begins no bitmap", cookie)
	}
	if count > math.MaxUint16+1 {
		return fmt.Errorf("%d containers", count)
	}
	keys, sizes := make([]int64, count), make([]int, count)
	for i := range count {
		keys[i], sizes[i] = int64(w.u16())<<16, w.u16()+1
	}
	if runs == nil || count >= 4 {
		w.take(4 * count)
	}
	for i := range count {
		switch {
		case runs != nil && runs[i/8]>>(i%8)&1 == 1:
			for range w.u16() {
				from, more := w.u16(), w.u16()
				for at := from; at <= from+more; at++ {
					row(keys[i] | int64(at))
				}
			}
		case sizes[i] > 4096:
			for at, b := range w.take(8192) {
				for bit := range 8 {
					if b>>bit&1 == 1 {
						row(keys[i] | int64(8*at+bit))
					}
				}
			}
		default:
			for range sizes[i] {
				row(keys[i] | int64(w.u16()))
			}
		}
	}
	return nil
}

// constants are the columns that a table's files have one value of, by name.
func constants(f *pb.File) (map[string]*cell, map[string]spec.Type) {
	cells, types := map[string]*cell{}, map[string]spec.Type{}
	for _, c := range f.GetConstants() {
		at := &cell{}
		switch v := c.GetValue().GetKind().(type) {
		case *pb.Value_Bool:
			at.ints, types[c.GetName()] = []int64{boolInt(v.Bool)}, spec.Type{Kind: pb.Kind_BOOL}
		case *pb.Value_Int:
			at.ints, types[c.GetName()] = []int64{v.Int}, spec.Type{Kind: pb.Kind_INT64}
		case *pb.Value_Float:
			at.floats, types[c.GetName()] = []float64{v.Float}, spec.Type{Kind: pb.Kind_FLOAT64}
		case *pb.Value_Text:
			at.texts, types[c.GetName()] = [][]byte{[]byte(v.Text)}, spec.Type{Kind: pb.Kind_BINARY}
		default:
			at.null = true
		}
		cells[c.GetName()] = at
	}
	return cells, types
}
