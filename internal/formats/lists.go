package formats

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
)

const (
	// listedFrom is the size of files for whose list is looked: to scan a shorter one takes no longer.
	listedFrom = 8 << 20
	// maxList bounds a list of records: some 2 million members of a tar, or 3 million of TFRecord's.
	maxList = 64 << 20
)

// Made is an index, and how it was made.
type Made struct {
	*index.Index
	// List is the file that told where records are; "": the file was scanned.
	List string
	// Read is how many bytes were read: of the list, or of the file.
	Read int64
	// Passed says why lists of the file were passed over.
	Passed []error
}

// Index makes the index of a file, by a list of its records that another tool wrote beside it, or by reading all of it:
// the one is to the byte what the other is. Errors name the file.
func Index(ctx context.Context, in *format.Input, of format.Scanned) (*Made, error) {
	m := &Made{}
	if by, ok := of.(format.Lister); ok && in.File.GetSize() >= listedFrom {
		if err := m.byList(ctx, in, by); err != nil || m.Index != nil {
			return m, err
		}
	}
	x, err := Scan(ctx, in, of)
	m.Index, m.Read = x, in.File.GetSize()
	return m, err
}

// byList makes the index by the first list that can be the file's, if there is one.
func (m *Made) byList(ctx context.Context, in *format.Input, of format.Lister) error {
	dir, name := beside.Split(in.File.GetUri())
	for _, list := range of.Lists(name) {
		found, err := in.Storage.List(ctx, in.Profile, []string{storage.Quote(dir + list)})
		if err != nil || len(found) != 1 || found[0].GetUri() != dir+list { // it is not needed
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		x, err := indexBy(ctx, in, of, found[0])
		switch {
		case err == nil:
			m.Index, m.List, m.Read = x, found[0].GetUri(), found[0].GetSize()
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		m.Passed = append(m.Passed, fmt.Errorf("%s is passed over, and %s is read to its end: %w: remove it, or "+
			"make it again", found[0].GetUri(), name, err))
	}
	return nil
}

// indexBy makes the index by a list.
func indexBy(ctx context.Context, in *format.Input, of format.Lister, list *pb.File) (*index.Index, error) {
	size := list.GetSize()
	if size > maxList {
		return nil, fmt.Errorf("it has %s, and %s may be", humanize.IBytes(uint64(size)), humanize.IBytes(maxList))
	}
	if err := in.Ask(size); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	one := format.Input{Storage: in.Storage, Profile: in.Profile, File: list}
	if err := one.ReadAt(ctx, data, 0); err != nil {
		return nil, err
	}
	return index.Make(in, of, func(found func(format.Place) error) error { return of.ScanList(ctx, in, data, found) })
}
