package offline

import (
	"context"
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/worker/excluded"
)

// Of a table the columns are those of the version, wherever a file has them.

// ofTable has the files be those of a table; nil: of none.
func (d *shower) ofTable(t *tables.Table) {
	if d.table = t; t != nil {
		d.deleted = excluded.New(formats.NewCache(footersAtOnce), footersAtOnce)
	}
}

// identified is a file as it lies in its storage now.
func (d *shower) identified(ctx context.Context, f *pb.File) (*pb.File, error) {
	if d.table == nil {
		return f, nil
	}
	return tables.Identified(ctx, d.st, d.profile, f)
}

// sources reads columns.
func (d *shower) sources(columns []spec.Column) (all []*pb.Source) {
	for _, c := range columns {
		all = append(all, &pb.Source{
			Name: c.Name, Path: c.Path, Field: c.Field, Type: c.Type.Proto(), Meaning: c.Meaning,
			Partition: c.Partition,
		})
	}
	if d.table != nil {
		d.table.Place(all)
	}
	return all
}

// look looks at a file.
func (d *shower) look(ctx context.Context, f *pb.File, holds format.File) (out looked, err error) {
	if d.table == nil {
		out, err = look(holds)
		out.file = f
		return out, err
	}
	out = looked{
		file: f, columns: format.NewColumns(d.table.Columns.Columns), rows: format.Rows(holds),
		extents: len(holds.Extents()), extent: holds.Extent(),
	}
	if out.gone, err = d.deleted.Of(ctx, d.st, d.profile, f, out.rows, excluded.Unbounded{}); err != nil {
		return out, err
	}
	out.deleted = out.gone.Len()
	for _, c := range d.table.Columns.Columns {
		known := summary{bounded: isScalar(c), counted: isScalar(c)}
		if canRead(c) {
			b, err := format.Bind(f, holds, d.sources([]spec.Column{c}))
			if err != nil {
				return out, err
			}
			for extent := range holds.Extents() {
				known.stored += b.SourceCost(extent, 0).Stored
				if isScalar(c) {
					known.add(b.Stats(extent, 0))
				}
			}
		}
		out.known = append(out.known, known)
	}
	return out, nil
}

// roundBounds gives the bounds of a decimal the digits behind the point that it has: they are known as floats, a little
// wider than they are. Those of more digits than that leaves exact stay.
func (d *shower) roundBounds(c spec.Column, of *shownColumn) {
	scale, ok := d.scaleOf(c)
	if !ok {
		return
	}
	const exact = 1 << 47 // units of the last digit: fewer are not widened by half of one
	power := math.Pow10(scale)
	for _, bound := range []*any{&of.Min, &of.Max} {
		if v, ok := (*bound).(float64); ok && math.Abs(v)*power < exact {
			*bound = math.Round(v*power) / power
		}
	}
}

// scaleOf is how many digits a decimal of the table has behind the point.
func (d *shower) scaleOf(c spec.Column) (int, bool) {
	if d.table == nil {
		return 0, false
	}
	var t arrow.DataType = arrow.StructOf(d.table.Schema.Fields()...)
	for _, name := range c.Path {
		within, ok := t.(*arrow.StructType)
		if !ok {
			return 0, false
		}
		field, ok := within.FieldByName(name)
		if !ok {
			return 0, false
		}
		t = field.Type
	}
	decimal, ok := t.(*arrow.Decimal128Type)
	if !ok {
		return 0, false
	}
	return int(decimal.Scale), true
}
