package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	pq "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Bounds of what is counted of a map's keys: how many, and how many bytes of them.
const (
	mostKeys     = 1_000_000
	mostKeyBytes = 256 << 20
)

// keyCount counts the rows that have a key of a map.
type keyCount struct {
	of     *flatMap
	leaf   int // of Parquet files, which has the keys
	table  *keyTable
	counts []int64
	last   []int64 // row that was counted
	bytes  int
}

func newKeyCount(m *flatMap) *keyCount {
	return &keyCount{of: m, table: newKeyTable(m.typ.(*arrow.MapType).KeyType())}
}

func (c *keyCount) add(n int32, known bool, row int64) error {
	if !known {
		if len(c.counts) == mostKeys || c.bytes > mostKeyBytes {
			return fmt.Errorf("column %s has more than %d keys, too many for columns: name those that become columns, "+
				"as --flatten %s=1,2 or --flatten %s=@FILE", c.of.name(), len(c.counts), c.of.name(), c.of.name())
		}
		c.counts, c.last = append(c.counts, 0), append(c.last, -1)
	}
	if c.last[n] != row {
		c.last[n] = row
		c.counts[n]++
	}
	return nil
}

func (c *keyCount) addInt(key, row int64) error {
	n, known := c.table.ints[key]
	if !known {
		n = int32(len(c.counts))
		c.table.ints[key] = n
	}
	return c.add(n, known, row)
}

func (c *keyCount) addText(key []byte, row int64) error {
	n, known := c.table.texts[string(key)]
	if !known {
		n = int32(len(c.counts))
		c.table.texts[string(key)] = n
		c.bytes += len(key)
	}
	return c.add(n, known, row)
}

// countedKey is a key as a spec has it, and how many rows have it.
type countedKey struct {
	text string
	rows int64
}

// sorted are the keys in their natural order.
func (c *keyCount) sorted() []countedKey {
	all := make([]countedKey, 0, len(c.counts))
	for _, key := range slices.SortedFunc(maps.Keys(c.table.ints), c.table.compare) {
		all = append(all, countedKey{intText(key, c.table.unsigned), c.counts[c.table.ints[key]]})
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.table.texts), natural.Compare) {
		all = append(all, countedKey{key, c.counts[c.table.texts[key]]})
	}
	return all
}

// countKeys counts the keys of maps in all inputs, and the rows. Of Parquet files it reads nothing else.
func countKeys(ctx context.Context, o Options, in *inputs, counts []*keyCount) (rows int64, err error) {
	if in.table != nil || storage.FormatOf(in.files[0].GetUri()) != "Parquet" {
		return countRecords(ctx, o, in, counts)
	}
	done := int64(0)
	for i := range in.files {
		n, err := countFile(ctx, in, i, counts, rows)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", in.name(i), err)
		}
		rows += n
		done += in.files[i].GetSize()
		o.tell(Progress{Rows: rows, Read: done, BytesToRead: in.total(), Counting: true})
	}
	return rows, nil
}

func (o *Options) tell(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}

// countRecords counts the keys of what is no Parquet, of which everything is read.
func countRecords(ctx context.Context, o Options, in *inputs, counts []*keyCount) (rows int64, err error) {
	src, err := openSource(ctx, o, in)
	if err != nil {
		return 0, err
	}
	defer src.close()
	for {
		rec, err := src.next(ctx, batchRows)
		if errors.Is(err, errEnd) {
			return rows, nil
		}
		if err != nil {
			return 0, err
		}
		for _, c := range counts {
			if err := c.addRecord(rec, rows); err != nil {
				return 0, err
			}
		}
		rows += rec.NumRows()
		used, total := src.read()
		o.tell(Progress{Rows: rows, Read: used, BytesToRead: total, Counting: true})
	}
}

// addRecord counts the keys of a record, whose first row is that one.
func (c *keyCount) addRecord(rec arrow.Record, row int64) error {
	values, err := c.of.of(rec)
	if err != nil {
		return err
	}
	rows := values.(array.ListLike)
	keys := rows.ListValues().(*array.Struct).Field(0)
	for i := range rows.Len() {
		if rows.IsNull(i) {
			continue
		}
		from, to := rows.ValueOffsets(i)
		if err := c.addKeys(keys, int(from), int(to), row+int64(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *keyCount) addKeys(keys arrow.Array, from, to int, row int64) (err error) {
	if c.table.texts == nil {
		for i, key := range intsOf(keys, from, to-from) {
			if err == nil && keys.IsValid(from+i) {
				err = c.addInt(key, row)
			}
		}
		return err
	}
	for i := from; i < to && err == nil; i++ {
		if keys.IsValid(i) {
			err = c.addText(bytesOf(keys, i), row)
		}
	}
	return err
}

// countFile counts the keys of a Parquet file, whose first row is that one, and its rows.
func countFile(ctx context.Context, in *inputs, i int, counts []*keyCount, row int64) (rows int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("arrow's reader panicked: %v%s", r, notRead)
		}
	}()
	props := &pq.ReaderProperties{BufferedStreamEnabled: true, BufferSize: min(maxBuffer, in.files[i].GetSize())}
	f, err := parquetfile.NewParquetReader(in.open(ctx, i), parquetfile.WithReadProps(props))
	if err != nil {
		return 0, err
	}
	if _, err := countRows(f.MetaData(), in.files[i].GetSize()-8-int64(f.MetaData().Size())); err != nil {
		return 0, err
	}
	for g := range f.NumRowGroups() {
		group := f.RowGroup(g)
		for _, c := range counts {
			if err := c.find(f); err != nil {
				return 0, err
			}
			if err := c.addChunk(ctx, group, row+rows); err != nil {
				return 0, fmt.Errorf("row group %d, column %s: %w", g, c.of.name(), err)
			}
		}
		rows += group.NumRows()
	}
	return rows, nil
}

// find finds the leaf of a file that has the keys. Files may differ in the names of levels within maps.
func (c *keyCount) find(f *parquetfile.Reader) error {
	path := strings.Join(c.of.path, "\x00") + "\x00"
	all := f.MetaData().Schema
	for i := range all.NumColumns() {
		if strings.HasPrefix(strings.Join(all.Column(i).ColumnPath(), "\x00"), path) {
			c.leaf = i
			return nil
		}
	}
	return fmt.Errorf("column %s is not there; convert files of other columns by themselves", c.of.name())
}

// countedLevels are read at once.
const countedLevels = 8192

// addChunk counts the keys of a row group, whose first row is that one.
func (c *keyCount) addChunk(ctx context.Context, group *parquetfile.RowGroupReader, row int64) error {
	chunk, err := group.Column(c.leaf)
	if err != nil {
		return err
	}
	_, ok := chunk.(*parquetfile.ByteArrayColumnChunkReader)
	_, fixed := chunk.(*parquetfile.FixedLenByteArrayColumnChunkReader)
	if (ok || fixed) != (c.table.texts != nil) {
		return errors.New("its keys have another type than in the first file; convert files of other columns by " +
			"themselves")
	}
	unsigned := c.of.typ.(*arrow.MapType).KeyType().ID() == arrow.UINT32
	switch chunk := chunk.(type) {
	case *parquetfile.Int32ColumnChunkReader:
		return addLevels(ctx, chunk, row, func(key int32, row int64) error {
			if unsigned {
				return c.addInt(int64(uint32(key)), row)
			}
			return c.addInt(int64(key), row)
		})
	case *parquetfile.Int64ColumnChunkReader:
		return addLevels(ctx, chunk, row, c.addInt)
	case *parquetfile.Int96ColumnChunkReader:
		return addLevels(ctx, chunk, row, func(key pq.Int96, row int64) error {
			return c.addInt(key.ToTime().UnixNano(), row)
		})
	case *parquetfile.ByteArrayColumnChunkReader:
		return addLevels(ctx, chunk, row, func(key pq.ByteArray, row int64) error { return c.addText(key, row) })
	case *parquetfile.FixedLenByteArrayColumnChunkReader:
		return addLevels(ctx, chunk, row, func(key pq.FixedLenByteArray, row int64) error {
			return c.addText(key, row)
		})
	}
	return fmt.Errorf("keys are %v, which cannot be counted", chunk.Type())
}

// chunkReader is one of arrow's.
type chunkReader[T any] interface {
	HasNext() bool
	Err() error
	Descriptor() *schema.Column
	ReadBatch(n int64, values []T, defs, reps []int16) (levels int64, read int, err error)
}

// addLevels hands out the values of a chunk with their rows.
func addLevels[T any](ctx context.Context, chunk chunkReader[T], row int64, add func(T, int64) error) error {
	values := make([]T, countedLevels)
	defs, reps := make([]int16, countedLevels), make([]int16, countedLevels)
	most := chunk.Descriptor().MaxDefinitionLevel()
	row--
	for chunk.HasNext() {
		if err := ctx.Err(); err != nil {
			return err
		}
		levels, _, err := chunk.ReadBatch(countedLevels, values, defs, reps)
		if err != nil {
			return err
		}
		if levels == 0 {
			break
		}
		at := 0
		for i := range levels {
			if reps[i] == 0 {
				row++
			}
			if defs[i] == most {
				if err := add(values[at], row); err != nil {
					return err
				}
				at++
			}
		}
	}
	return chunk.Err()
}
