package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// arrowFiles makes records of Arrow's files. One record batch of them is in memory at a time, and cut into records.
type arrowFiles struct {
	columnsOf
	in      *inputs
	opened  int // files so far
	name    string
	file    *ipc.FileReader
	batch   []arrow.ArrayData // being cut; nil if there is none
	rows    int64             // of the batch
	most    int64             // bytes of a row of it, at most
	batches int               // number of the next batch
	from    int64             // row of the batch that is next
	row     int64             // of the file, where the batch begins
	size    int64             // of the file
	used    int64             // bytes of the files before
	total   int64
}

func openArrow(ctx context.Context, o Options, in *inputs) (*arrowFiles, error) {
	if err := o.noText(); err != nil {
		return nil, err
	}
	a := &arrowFiles{columnsOf: columnsOf{hexColumns: o.Hex}, in: in, total: in.total()}
	if err := a.nextFile(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// explain makes an error of a panic, which corrupt files may cause in arrow's reader, and names the file.
func (a *arrowFiles) explain(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("arrow's reader panicked: %v: the file is damaged; write it again", r)
	}
	if *err != nil && !errors.Is(*err, errEnd) {
		*err = fmt.Errorf("%s: %w", a.name, *err)
	}
}

// nextFile opens the next file, or returns errEnd.
func (a *arrowFiles) nextFile(ctx context.Context) (err error) {
	a.used += a.size
	a.size, a.batches, a.row, a.from, a.batch = 0, 0, 0, 0, nil
	if a.opened == len(a.in.files) {
		return errEnd
	}
	i := a.opened
	a.name, a.opened = a.in.name(i), i+1
	defer a.explain(&err)
	if a.file, err = ipc.NewFileReader(a.in.open(ctx, i), ipc.WithAllocator(memory.NewGoAllocator())); err != nil {
		return err
	}
	a.size = a.in.files[i].GetSize()
	var fields []arrow.Field
	for _, f := range a.file.Schema().Fields() {
		fields = append(fields, arrow.Field{Name: f.Name, Type: plain(f.Type), Nullable: true})
	}
	return a.use(a.in.name(0), fields)
}

func (a *arrowFiles) next(ctx context.Context, limit int64) (arrow.Record, error) {
	for a.batch == nil {
		err := a.nextBatch(ctx)
		if errors.Is(err, errEnd) {
			err = a.nextFile(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.cut(ctx, min(limit, a.rows-a.from, max(1, recordBytes/max(1, a.most))))
}

// cut makes a record of the next rows of the batch.
func (a *arrowFiles) cut(ctx context.Context, n int64) (_ arrow.Record, err error) {
	defer a.explain(&err)
	arrays := make([]arrow.Array, len(a.batch))
	for i, d := range a.batch {
		d = array.NewSliceData(d, a.from, a.from+n)
		if isDictionary(d.DataType()) {
			d, err = taken(ctx, array.NewDictionaryData(d))
		}
		if err == nil {
			arrays[i], err = a.column(i, d, a.row+a.from)
		}
		if err != nil {
			return nil, a.inBatch(i, err)
		}
	}
	if a.from += n; a.from == a.rows {
		a.row, a.from, a.batch = a.row+a.rows, 0, nil
	}
	return array.NewRecord(a.arrow, arrays, n), nil
}

func (a *arrowFiles) inBatch(column int, err error) error {
	return fmt.Errorf("record batch %d, column %s: %w", a.batches-1, a.arrow.Field(column).Name, err)
}

// nextBatch reads the next batch of the file that has rows, or returns errEnd.
func (a *arrowFiles) nextBatch(ctx context.Context) (err error) {
	defer a.explain(&err)
	for a.batches < a.file.NumRecords() {
		rec, err := a.file.RecordAt(a.batches)
		if err != nil {
			return fmt.Errorf("record batch %d: %w", a.batches, err)
		}
		a.batches++
		if rec.NumRows() == 0 {
			continue
		}
		batch := make([]arrow.ArrayData, rec.NumCols())
		a.most = 0
		for i, values := range rec.Columns() {
			if batch[i] = values.Data(); isDictionary(values.DataType()) { // cut makes it plain
				a.most += longest(values.(*array.Dictionary).Dictionary())
				continue
			}
			if batch[i], err = plainData(ctx, values.Data()); err != nil {
				return a.inBatch(i, err)
			}
			a.most += sizeOfArray(values)/rec.NumRows() + 1
		}
		a.batch, a.rows, a.from = batch, rec.NumRows(), 0
		return nil
	}
	return errEnd
}

func (a *arrowFiles) behind() place { return place{Input: a.opened - 1, Row: a.row + a.from} }

func (a *arrowFiles) seek(ctx context.Context, input int) error {
	a.opened, a.used, a.size = input, 0, 0
	for _, f := range a.in.files[:input] {
		a.used += f.GetSize()
	}
	return a.nextFile(ctx)
}

func (a *arrowFiles) read() (used, total int64) {
	if a.size == 0 || a.file.NumRecords() == 0 {
		return a.used, a.total
	}
	return a.used + a.size*int64(a.batches)/int64(a.file.NumRecords()), a.total
}

func (a *arrowFiles) close() {}
