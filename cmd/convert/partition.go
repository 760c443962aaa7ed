package convert

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/dustin/go-humanize"
)

// Partitions are folders that stand for columns, as Hive has them: day=2026-01-02/country=DE. Rows are sorted by these
// columns first, which keeps the inputs' order within each. So one file is open at a time, however many there are.
const (
	// nullPartition stands for a value that is null.
	nullPartition = "__HIVE_DEFAULT_PARTITION__"
	// mostPartitions keeps a mistaken column from making a file a row.
	mostPartitions = 10_000
	// longestFolder is how many bytes file systems let a name have.
	longestFolder = 255
)

// arrangement is where rows go.
type arrangement struct {
	partitions []int     // columns
	by         []sortKey // partitions first
	shuffle    *int64    // the seed; nil: rows are not shuffled
}

// arrangementOf checks the columns that the options name.
func arrangementOf(o Options, schema *arrow.Schema) (arrangement, error) {
	by, err := sortKeys(o.SortBy, schema)
	if err != nil {
		return arrangement{}, err
	}
	if o.Shuffle != nil {
		if len(by) > 0 {
			return arrangement{}, errors.New("--shuffle and --sort-by say different orders of rows: give one of them")
		}
		by = []sortKey{{column: schema.NumFields()}} // what is drawn
	}
	a := arrangement{partitions: make([]int, len(o.PartitionBy)), shuffle: o.Shuffle}
	for i, name := range o.PartitionBy {
		column := columnNamed(schema, name)
		switch {
		case column < 0:
			return a, fmt.Errorf("--partition-by names %q, which is no column; there are %s", name,
				some(columnNames(schema)))
		case slices.Contains(a.partitions[:i], column):
			return a, fmt.Errorf("--partition-by names column %s twice: name it once", name)
		case !partitionable(schema.Field(column).Type):
			return a, fmt.Errorf("--partition-by names column %s, which is %v: folders stand for whole numbers, "+
				"texts, booleans, dates and times", name, schema.Field(column).Type)
		}
		a.partitions[i] = column
		a.by = append(a.by, sortKey{column: column})
	}
	if len(o.PartitionBy) == schema.NumFields() {
		return a, errors.New("--partition-by names all columns, and files would have none: leave one")
	}
	a.by = append(a.by, by...)
	return a, nil
}

func partitionable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.STRING, arrow.LARGE_STRING, arrow.DATE32, arrow.TIMESTAMP:
		return true
	}
	return arrow.IsInteger(t.ID())
}

// of puts the rows of a source where they go.
func (a arrangement) of(src source, o Options, in *inputs, scratch string) source {
	if len(a.by) == 0 {
		return src
	}
	if len(a.partitions) == 0 {
		return a.sort(src, o, scratch)
	}
	checked := &partitionCheck{
		side: side{source: src, in: in}, columns: a.partitions, by: a.by[:len(a.partitions)], known: map[string]bool{},
	}
	return &partitioned{source: a.sort(checked, o, scratch), columns: a.partitions}
}

// sort puts the rows of a source in their order.
func (a arrangement) sort(src source, o Options, scratch string) source {
	if a.shuffle == nil {
		return newSorted(src, a.by, scratch, o.Progress)
	}
	return undrawn{newSorted(newDrawn(src, *a.shuffle), a.by, scratch, o.Progress), src.schema()}
}

// partitionCheck is a source whose values can all be partitions.
type partitionCheck struct {
	side
	columns []int
	by      []sortKey
	key     []byte
	known   map[string]bool // by their keys
}

func (p *partitionCheck) next(ctx context.Context, limit int64) (rec arrow.Record, err error) {
	if rec, err = p.source.next(ctx, limit); err != nil {
		return nil, err
	}
	p.rec = rec
	for row := range int(rec.NumRows()) {
		p.key = appendKey(p.key[:0], p.by, rec, row)
		if p.known[string(p.key)] {
			continue
		}
		if err := p.check(row); err != nil {
			return nil, fmt.Errorf("%s: %w", p.where(int64(row)), err)
		}
		if p.known[string(p.key)] = true; len(p.known) > mostPartitions {
			return nil, fmt.Errorf("%s begins partition %s, and there are at most %s: name columns with fewer values "+
				"by --partition-by, or give --sort-by, which has no bound", p.where(int64(row)),
				humanize.Comma(int64(len(p.known))), humanize.Comma(mostPartitions))
		}
	}
	return rec, nil
}

func (p *partitionCheck) check(row int) error {
	for _, column := range p.columns {
		name, values := p.schema().Field(column).Name, p.rec.Column(column)
		text := partitionText(values, row)
		switch {
		case values.IsNull(row):
		case !utf8.ValidString(text):
			return fmt.Errorf("column %s is %q, which is no UTF-8, and cannot name a folder", name, short(text))
		case text == nullPartition:
			return fmt.Errorf("column %s is %s, which stands for null in names of folders: rename the value", name,
				text)
		case len(folderName(name, text)) > longestFolder:
			return fmt.Errorf("column %s is %s, which makes a folder's name longer than %d bytes: partition by "+
				"shorter values", name, short(text), longestFolder)
		}
	}
	return nil
}

// partitioned is a source whose records have rows of one partition each. Its rows are sorted by the partitions.
type partitioned struct {
	source
	columns []int
	rest    arrow.Record
	folder  string // of the last record
}

func (p *partitioned) next(ctx context.Context, limit int64) (rec arrow.Record, err error) {
	if p.rest == nil {
		if p.rest, err = p.source.next(ctx, limit); err != nil {
			return nil, err
		}
	}
	rec = p.rest
	alike := sort.Search(int(rec.NumRows()), func(row int) bool {
		return slices.ContainsFunc(p.columns, func(column int) bool {
			return !equal(rec.Column(column), 0, rec.Column(column), row)
		})
	})
	rec, p.rest = cut(rec, min(limit, int64(alike)))
	p.folder = ""
	for _, column := range p.columns {
		name := folderName(p.schema().Field(column).Name, partitionText(rec.Column(column), 0))
		p.folder = path.Join(p.folder, name)
	}
	return rec, nil
}

func (p *partitioned) behind() place {
	at := p.source.behind()
	if p.rest != nil {
		at.Row -= p.rest.NumRows()
	}
	return at
}

// folderOf is where the rows of a source's last record lie in the output.
func folderOf(src source) string {
	if p, ok := src.(*partitioned); ok {
		return p.folder
	}
	return "."
}

// anyFolder is a folder as partitions may have it.
func (o *Options) anyFolder() (folder string) {
	for _, name := range o.PartitionBy {
		folder = path.Join(folder, folderName(name, "0"))
	}
	return folder
}

// folderName escapes values as all readers undo it. Of columns' names, where some readers do not, it escapes only what
// must be.
func folderName(column, value string) string {
	var name strings.Builder
	for i := range len(column) {
		if c := column[i]; c < ' ' || c == 0x7f || strings.IndexByte(`"#%'*/:=?\{[]^`, c) >= 0 {
			fmt.Fprintf(&name, "%%%02X", c)
		} else {
			name.WriteByte(c)
		}
	}
	// QueryEscape leaves letters, digits and "-_.~", and makes "+" of spaces, which no other character becomes
	return name.String() + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// timeOfPartition has no zone, as other writers have it: times of a zone are those of UTC.
const timeOfPartition = "2006-01-02 15:04:05.999999999"

// partitionText is a value as a folder's name has it before it is escaped.
func partitionText(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return nullPartition
	}
	if times, ok := a.(*array.Timestamp); ok {
		return times.Value(row).ToTime(times.DataType().(*arrow.TimestampType).Unit).Format(timeOfPartition)
	}
	return a.ValueStr(row)
}

// partitionValues makes n values of what partitionText gives.
func partitionValues(t arrow.DataType, text string, n int64) (_ arrow.Array, err error) {
	b := array.NewBuilder(memory.NewGoAllocator(), t)
	for range n {
		times, isTime := b.(*array.TimestampBuilder)
		switch {
		case text == nullPartition:
			b.AppendNull()
		case isTime:
			var at time.Time
			var value arrow.Timestamp
			if at, err = time.Parse(timeOfPartition, text); err == nil {
				value, err = arrow.TimestampFromTime(at, t.(*arrow.TimestampType).Unit)
			}
			times.Append(value)
		default:
			err = b.AppendValueFromString(text)
		}
		if err != nil {
			return nil, fmt.Errorf("the folder of %q is no %v: %w", short(text), t, err)
		}
	}
	return b.NewArray(), nil
}
