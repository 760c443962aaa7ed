package convert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/excluded"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// decoded makes records of files by the workers' decoders: what a session would read of their columns, all of them. A
// file is scanned for its extents, and each is decoded as soon as it is found.
type decoded struct {
	columnsOf
	in      *inputs
	how     *pb.Format
	cache   *formats.Cache
	format  string // of all files
	sources []*pb.Source
	decoder decoders.Decoder
	keys    decoders.Constants // columns that files have one value of

	decimals decimals

	vectors  *excluded.Store // of rows that tables have deleted
	excluded excluded.Set    // of the file
	chosen   []uint64        // rows of a window that are not excluded

	opened  int          // files so far
	parts   nextPart     // of the file
	stop    func()       // ends parts; nil: no file is open
	part    filePart     // being decoded
	left    int64        // rows of it
	ready   arrow.Record // decoded, but not given
	row     int64        // given of the file
	fileRow int64        // decoded of the file

	most    int64 // rows that may be left out
	skipped skipped

	used, total int64        // bytes of the files before, and of all
	bytes       atomic.Int64 // read of the file, those that are scanned twice
	tell        func(Progress)
	telling     sync.Mutex
	given       int64 // rows
}

// filePart is an extent of a file.
type filePart struct {
	format.Extent
	bound   *format.Listed
	index   int
	scanned bool
}

type nextPart func() (filePart, error, bool)

const (
	// describedAtOnce is how many files are described in parallel.
	describedAtOnce = 16
	// describedBytes bounds the descriptions that are kept.
	describedBytes = 64 << 20
	// decoderBytes bounds what a decoder holds.
	decoderBytes = 1 << 30
	// pieceBytes is how much of an extent is read at once.
	pieceBytes = 1 << 20
)

func openDecoded(ctx context.Context, o Options, in *inputs) (*decoded, error) {
	if err := o.noTable(); err != nil {
		return nil, err
	}
	d := &decoded{
		columnsOf: columnsOf{hexColumns: o.Hex}, in: in, how: o.Format, cache: formats.NewCache(describedBytes),
		most: o.SkipRows, total: in.total(), tell: o.Progress,
	}
	d.decimals.types = map[int]*arrow.Decimal128Type{}
	d.vectors = excluded.New(d.cache, describedBytes)
	columns, err := d.columns(ctx)
	if err != nil {
		return nil, err
	}
	if columns, err = chosen(columns, o.Columns); err != nil {
		return nil, err
	}
	fields, or := make([]arrow.Field, len(columns)), ", or say by --format what it is"
	if in.table != nil {
		or = ""
	}
	for i := range columns {
		t, s, err := sourceOf(&columns[i], or)
		if err != nil {
			return nil, err
		}
		if in.table != nil {
			if decimal := in.staysDecimal(columns[i].Name); decimal != nil {
				t, d.decimals.types[i] = decimal, decimal
			}
		}
		fields[i] = arrow.Field{Name: columns[i].Name, Type: t, Nullable: true}
		s.Partition = columns[i].Partition
		d.sources = append(d.sources, s)
	}
	if in.table != nil {
		in.table.Place(d.sources)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s has no columns", in.name(0))
	}
	if err := d.use(in.name(0), fields); err != nil {
		return nil, err
	}
	own := format.OwnOf(d.sources)
	if d.decoder, err = decoders.New(d.format, own.Sources); err != nil {
		return nil, err
	}
	d.decoder.Memory().Allow(decoderBytes)
	d.keys = decoders.Constants{Own: own, Memory: d.decoder.Memory()}
	return d, nil
}

// nextFile opens the next file, or returns errEnd.
func (d *decoded) nextFile(ctx context.Context) error {
	d.closeFile()
	if d.opened == len(d.in.files) {
		return errEnd
	}
	i := d.opened
	d.opened++
	parts, stop := iter.Pull2(d.partsOf(ctx, i))
	d.parts, d.stop = parts, stop
	return nil
}

// closeFile ends the file that is open.
func (d *decoded) closeFile() {
	if d.stop != nil {
		d.stop()
		d.used += d.in.files[d.opened-1].GetSize()
	}
	d.stop, d.parts, d.ready = nil, nil, nil
	d.left, d.row, d.fileRow = 0, 0, 0
	d.bytes.Store(0)
}

var errStopped = errors.New("nobody wants more")

// partsOf finds the extents of a file, one after the other.
func (d *decoded) partsOf(ctx context.Context, i int) iter.Seq2[filePart, error] {
	return func(yield func(filePart, error) bool) {
		if err := d.eachPart(ctx, i, yield); err != nil && !errors.Is(err, errStopped) {
			yield(filePart{}, err)
		}
	}
}

func (d *decoded) eachPart(ctx context.Context, i int, yield func(filePart, error) bool) error {
	file := d.in.files[i]
	described, err := d.cache.Load(ctx, d.in.store, d.in.profile, file, d.how, nil, nil)
	if err != nil {
		return err
	}
	if described.Format() != d.format {
		return differ(d.in, i, d.format, described.Format())
	}
	if err := d.exclude(ctx, file, described); err != nil {
		return err
	}
	if err := d.decimals.open(ctx, d.in, i, described, d.sources); err != nil {
		return err
	}
	of, scanned := described.(format.Scanned)
	in := &format.Input{Storage: d.in.store, Profile: d.in.profile, File: file, How: d.how}
	if scanned {
		if indexed := d.cache.Indexed(ctx, in, of); indexed != nil {
			described, scanned = indexed, false
		}
	}
	if !scanned {
		bound, err := format.Bind(file, described, d.sources)
		if err != nil {
			return fmt.Errorf("%s: %w", d.in.name(i), err)
		}
		for at, e := range described.Extents() {
			if !yield(filePart{Extent: e, bound: bound, index: at}, nil) {
				return errStopped
			}
		}
		return nil
	}
	in.Storage = counting{d.in.store, d}
	err = of.Scan(ctx, in, func(p format.Place) error {
		at, err := of.At([]format.Place{p})
		if err != nil {
			return err
		}
		bound, err := format.Bind(file, at, d.sources)
		if err == nil && !yield(filePart{p.Extent, bound, p.Index, true}, nil) {
			return errStopped
		}
		return err
	})
	if err != nil && !errors.Is(err, errStopped) {
		return fmt.Errorf("%s: %w", d.in.name(i), err)
	}
	return err
}

// counting counts what is read of a file, and tells of it: a scan may take long.
type counting struct {
	storage.Storage
	of *decoded
}

func (c counting) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	c.of.bytes.Add(int64(len(buf)))
	c.of.progress()
	return c.Storage.ReadAt(ctx, profile, f, buf, offset)
}

// progress tells how far the reading is. Parts of a file are read at once, so one of them tells at a time.
func (d *decoded) progress() {
	if d.tell == nil || !d.telling.TryLock() {
		return
	}
	defer d.telling.Unlock()
	used, total := d.read()
	d.tell(Progress{Rows: d.given, Read: used, BytesToRead: total})
}

func (d *decoded) next(ctx context.Context, limit int64) (rec arrow.Record, err error) {
	for d.ready == nil {
		if err := d.decode(ctx); err != nil {
			return nil, err
		}
	}
	rec, d.ready = cut(d.ready, limit)
	d.row += rec.NumRows()
	d.given += rec.NumRows()
	return rec, nil
}

// decode makes the next rows ready, or opens the next extent or file.
func (d *decoded) decode(ctx context.Context) error {
	if d.parts == nil {
		return d.nextFile(ctx)
	}
	if d.left == 0 {
		part, err, ok := d.parts()
		if err != nil {
			return err
		}
		if !ok {
			return d.nextFile(ctx)
		}
		return d.begin(ctx, part)
	}
	rows := min(d.left, d.rowsAtOnce())
	vectors, err := d.decoder.Next(int(rows))
	if err == nil {
		vectors, err = d.keys.Join(vectors, int(rows))
	}
	if err != nil {
		return err
	}
	arrays := make([]arrow.Array, len(vectors))
	for i, v := range vectors {
		if d.decimals.types[i] != nil {
			if arrays[i], err = d.decimals.next(i, v, d.name()); err != nil {
				return err
			}
			continue
		}
		if arrays[i], err = d.column(i, dataOf(v, d.typeBefore(i)), d.fileRow); err != nil {
			return fmt.Errorf("%s: column %s: %w", d.name(), d.sources[i].GetName(), err)
		}
	}
	first := d.fileRow
	d.left, d.fileRow = d.left-rows, d.fileRow+rows
	rec := array.NewRecord(d.arrow, arrays, rows)
	if len(d.excluded) > 0 {
		d.ready, err = d.withoutExcluded(rec, first)
	} else {
		d.ready, err = d.withoutFaults(rec, first)
	}
	return err
}

// typeBefore is the type of a column as it is decoded.
func (d *decoded) typeBefore(i int) arrow.DataType {
	if d.hex[i] {
		return arrow.BinaryTypes.String
	}
	return d.arrow.Field(i).Type
}

// begin begins an extent.
func (d *decoded) begin(ctx context.Context, part filePart) error {
	file := d.in.files[d.opened-1]
	chunks := make([]decode.Source, part.bound.Chunks())
	for i := range chunks {
		chunks[i] = &pieces{
			ctx: ctx, from: counting{d.in.store, d}, profile: d.in.profile, file: file,
			Range: part.bound.Chunk(part.index, i).Range,
		}
	}
	d.part, d.left = part, part.Rows
	if part.Rows == 0 {
		return nil
	}
	if err := d.keys.Begin(part.bound); err != nil {
		return fmt.Errorf("%s: %w", d.name(), err)
	}
	return d.decoder.Reset(d.name(), part.bound.Bound, part.index, chunks)
}

// rowsAtOnce is how many rows of the extent have about recordBytes.
func (d *decoded) rowsAtOnce() int64 {
	each := int64(0)
	for i := range d.sources {
		each += max(8, d.part.bound.Window(d.part.index, i, d.part.Rows).Bytes/d.part.Rows)
	}
	return min(batchRows, max(1, recordBytes/each))
}

func (d *decoded) name() string { return d.in.name(d.opened - 1) }

func (d *decoded) behind() place {
	return place{Input: d.opened - 1, Row: d.row, Skipped: d.skipped.rows}
}

func (d *decoded) seek(_ context.Context, input int) error {
	d.closeFile()
	d.opened, d.used = input, 0
	for _, f := range d.in.files[:input] {
		d.used += f.GetSize()
	}
	return nil
}

func (d *decoded) read() (used, total int64) {
	if d.stop == nil {
		return d.used, d.total
	}
	n := d.bytes.Load()
	if d.part.scanned {
		n /= 2
	}
	return d.used + min(n, d.in.files[d.opened-1].GetSize()), d.total
}

func (d *decoded) close() {
	d.closeFile()
	d.decimals.close()
	d.keys.Forget()
	d.decoder.Forget()
}

// pieces is a decode.Source that reads piece by piece: an extent may be a whole file.
type pieces struct {
	storage.Range
	ctx     context.Context //nolint:containedctx // of the one extent that it is made for
	from    storage.Storage
	profile string
	file    *pb.File
	at      int // of the extent, where data begins
	data    []byte
}

// Bytes is that of decode.Source.
func (c *pieces) Bytes(from, n int) ([]byte, error) {
	if from < c.at || from+n > c.at+len(c.data) {
		data := make([]byte, min(max(n, pieceBytes), int(c.Length)-from))
		if err := c.from.ReadAt(c.ctx, c.profile, c.file, data, c.Offset+int64(from)); err != nil {
			return nil, err
		}
		c.at, c.data = from, data
	}
	return c.data[from-c.at:], nil
}
