package convert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
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

// skipped are the rows that were left out, since they are damaged.
type skipped struct {
	rows  int64
	first []string // what was wrong with the first ones
}

// filePart is an extent of a file.
type filePart struct {
	format.Extent
	bound   format.Bound
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
	columns, err := d.describe(ctx)
	if err != nil {
		return nil, err
	}
	if columns, err = chosen(columns, o.Columns); err != nil {
		return nil, err
	}
	fields := make([]arrow.Field, len(columns))
	for i := range columns {
		t, s, err := sourceOf(&columns[i])
		if err != nil {
			return nil, err
		}
		fields[i] = arrow.Field{Name: columns[i].Name, Type: t, Nullable: true}
		d.sources = append(d.sources, s)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s has no columns", in.name(0))
	}
	if err := d.use(in.name(0), fields); err != nil {
		return nil, err
	}
	if d.decoder, err = decoders.New(d.format, d.sources); err != nil {
		return nil, err
	}
	d.decoder.Memory().Allow(decoderBytes)
	return d, nil
}

// describe looks at all files, leaves out those without an ending that are of no format, and merges their columns: as
// sessions do.
func (d *decoded) describe(ctx context.Context) ([]spec.Column, error) {
	parts := make([]spec.FileSchema, len(d.in.files))
	names, foreign := make([]string, len(d.in.files)), make([]bool, len(d.in.files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	for i, f := range d.in.files {
		group.Go(func() error {
			described, err := d.cache.Load(ctx, d.in.store, d.in.profile, f, d.how, nil, nil)
			if foreign[i] = formats.IsForeign(f, err); foreign[i] {
				return nil
			}
			if _, unclaimed := errors.AsType[*formats.UnclaimedError](err); unclaimed {
				return fmt.Errorf("%s: neither its name nor its bytes tell its format: give --format, or, of a table "+
					"of text, --delimiter", d.in.name(i))
			}
			if err == nil {
				parts[i], names[i] = format.Schema(f, described), described.Format()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	parts, names = without(parts, foreign), without(names, foreign)
	d.in.leaveOut(foreign)
	d.total = d.in.total()
	if len(names) == 0 {
		return nil, errors.New("none of the files is of a format that is read: give --format")
	}
	for i, name := range names {
		if name != names[0] {
			return nil, differ(d.in, i, names[0], name)
		}
	}
	d.format = names[0]
	schema, err := spec.Merge(parts)
	return schema.Columns, err
}

// chosen are the columns that are named, in that order; without names all.
func chosen(columns []spec.Column, names []string) ([]spec.Column, error) {
	if len(names) == 0 {
		return columns, nil
	}
	var out []spec.Column
	for _, name := range names {
		i := slices.IndexFunc(columns, func(c spec.Column) bool { return c.Name == name })
		if i < 0 {
			var all []string
			for _, c := range columns {
				all = append(all, c.Name)
			}
			return nil, fmt.Errorf("--columns: there is no column %s; there are %s (types are said by --format, as "+
				"in '{name: jsonl, columns: {score: float32}}')", name, some(all))
		}
		out = append(out, columns[i])
	}
	return out, nil
}

// seenInFronts are the formats of which only a file's front tells which columns there are, and how specs call them.
func seenInFronts() map[string]string {
	return map[string]string{"JSON lines": "jsonl", "WebDataset": "webdataset", "TFRecord": "tfrecord"}
}

// unseen tells of columns that files may have behind their fronts; nothing: there are none, or they are chosen.
func unseen(o *Options, src source) []string {
	d, ok := src.(*decoded)
	if !ok || len(o.Columns) > 0 {
		return nil
	}
	name := seenInFronts()[d.format]
	if name == "" || !slices.ContainsFunc(d.in.files, func(f *pb.File) bool {
		return f.GetSize() > format.Head || len(storage.Uncompressed(f.GetUri())) < len(f.GetUri())
	}) {
		return nil
	}
	return []string{fmt.Sprintf("the columns are those that the fronts of files show, about their first %s: one that "+
		"is only behind them is left out, unless --format declares it, as in '{name: %s, columns: {late: int64}}'",
		humanize.IBytes(format.Head), name)}
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
	d.stop = stop
	d.parts = func() (filePart, error, bool) { return parts() }
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
	of, scanned := described.(format.Scanned)
	if scanned {
		if indexed := d.indexed(ctx, file, of); indexed != nil {
			described, scanned = indexed, false
		}
	}
	if !scanned {
		bound, err := described.Bind(d.sources)
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
	in := &format.Input{Storage: counting{d.in.store, d}, Profile: d.in.profile, File: file, How: d.how}
	err = of.Scan(ctx, in, func(p format.Place) error {
		at, err := of.At([]format.Place{p})
		if err != nil {
			return err
		}
		bound, err := at.Bind(d.sources)
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

// indexed is a file with the extents of its index, if one lies beside it; nil: a scan is as good.
func (d *decoded) indexed(ctx context.Context, file *pb.File, of format.Scanned) format.File {
	want := index.For(file, of, d.how)
	x, _ := d.cache.Beside(ctx, d.in.store, d.in.profile, file, want)
	if x == nil {
		return nil
	}
	opened, err := x.Open(of, want)
	if err != nil {
		return nil
	}
	return opened
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
	if err != nil {
		return err
	}
	arrays := make([]arrow.Array, len(vectors))
	for i, v := range vectors {
		if arrays[i], err = d.column(i, dataOf(v, d.typeBefore(i)), d.fileRow); err != nil {
			return fmt.Errorf("%s: column %s: %w", d.name(), d.sources[i].GetName(), err)
		}
	}
	first := d.fileRow
	d.left, d.fileRow = d.left-rows, d.fileRow+rows
	d.ready, err = d.withoutFaults(array.NewRecord(d.arrow, arrays, rows), first)
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
	return d.decoder.Reset(d.name(), part.bound, part.index, chunks)
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

// shownFaults is how many rows that were left out are named.
const shownFaults = 5

// withoutFaults leaves out rows that could not be decoded, if that is allowed; nil: there are no others.
func (d *decoded) withoutFaults(rec arrow.Record, first int64) (arrow.Record, error) {
	of, ok := d.decoder.(decoders.Faulty)
	if !ok || len(of.Faults()) == 0 {
		return rec, nil
	}
	var runs []arrow.Record
	from := int64(0)
	for _, f := range of.Faults() {
		err := fmt.Errorf("%s row %d: %w", d.name(), first+int64(f.Row), f.Err)
		switch {
		case d.most == 0:
			return nil, err
		case d.skipped.rows == d.most:
			return nil, fmt.Errorf("%w (--skip-rows leaves out %d, which are before it)", err, d.most)
		}
		d.skipped.add(err)
		if at := int64(f.Row); at > from {
			runs = append(runs, rec.NewSlice(from, at))
		}
		from = int64(f.Row) + 1
	}
	if from < rec.NumRows() {
		runs = append(runs, rec.NewSlice(from, rec.NumRows()))
	}
	return joined(runs)
}

func (s *skipped) add(err error) {
	if s.rows++; len(s.first) < shownFaults {
		s.first = append(s.first, err.Error())
	}
}

// notes tell of the rows.
func (s skipped) notes() []string {
	if s.rows == 0 {
		return nil
	}
	notes := []string{"left out, since they cannot be decoded: " + english.Plural(int(s.rows), "row", "")}
	for _, why := range s.first {
		notes = append(notes, "left out: "+why)
	}
	return notes
}

// skippedOf are the rows that a conversion left out, also in earlier runs.
func skippedOf(src source, done *progress) (s skipped) {
	if d, ok := src.(*decoded); ok {
		s = d.skipped
	}
	if n := len(done.files); n > 0 {
		s.rows = max(s.rows, done.files[n-1].After.Skipped)
	}
	return s
}

// joined makes one record of several; nil: there are none.
func joined(runs []arrow.Record) (arrow.Record, error) {
	if len(runs) == 0 {
		return nil, nil //nolint:nilnil // no rows are none to give
	}
	columns, rows := make([]arrow.Array, runs[0].NumCols()), int64(0)
	for i := range columns {
		var all []arrow.Array
		for _, r := range runs {
			all = append(all, r.Column(i))
		}
		var err error
		if columns[i], err = array.Concatenate(all, memory.NewGoAllocator()); err != nil {
			return nil, err
		}
	}
	for _, r := range runs {
		rows += r.NumRows()
	}
	return array.NewRecord(runs[0].Schema(), columns, rows), nil
}

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

// differ says of an input that it is of another format than the first one.
func differ(in *inputs, i int, first, other string) error {
	return fmt.Errorf("%s is %s, and %s %s: convert them one format at a time", in.name(0), first, in.name(i), other)
}
