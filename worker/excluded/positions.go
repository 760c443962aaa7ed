package excluded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// pieceRows is how many rows of a file of positions are decoded at a time.
const pieceRows = 8192

const (
	// pathBytes is what it takes to know of a file, beside its path.
	pathBytes = 256
	// positionBytes is the most that a position comes to take: it may have a bitmap of its own, with one container.
	positionBytes = pathBytes + partBytes + containerBytes + 16
)

// positionSources are the columns of a file of positions, as Iceberg names them.
func positionSources() []*pb.Source {
	return []*pb.Source{
		{Name: "file_path", Path: []string{"file_path"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		{Name: "pos", Path: []string{"pos"}, Type: &pb.Type{Kind: pb.Kind_INT64}},
	}
}

// positions reads a file of positions.
type positions struct {
	*reading
	file    *pb.File
	holds   format.File
	bound   format.Bound
	decoder formats.Decoder
	of      map[string]*building

	path string // of the last row
	last *building
	run  []uint32 // its rows since they were last added, with the same upper bits
	high uint32
}

// building is what is found of the rows of one file.
type building struct {
	parts map[uint32]*roaring.Bitmap
	bytes int64 // that they take
}

func (r *reading) positions(ctx context.Context, file *pb.File) (told, error) {
	p := &positions{reading: r, file: file, of: map[string]*building{}}
	if err := p.open(ctx); err != nil {
		return told{}, err
	}
	defer p.decoder.Forget()
	for i := range p.holds.Extents() {
		if err := p.extent(ctx, i); err != nil {
			return told{}, fmt.Errorf("%s: %w", format.Name(p.holds, i), err)
		}
	}
	return p.told(), nil
}

func (p *positions) open(ctx context.Context) (err error) {
	sources := positionSources()
	if p.holds, err = p.files.Load(ctx, p.storage, p.profile, p.file, nil, sources, p.take); err != nil {
		return err
	}
	if _, ok := p.holds.(format.Scanned); ok {
		return fmt.Errorf("it is a file of %s; want Parquet", p.holds.Format())
	}
	if p.bound, err = p.holds.Bind(sources); err != nil {
		return err
	}
	for i, s := range sources {
		if !p.bound.Has(i) {
			return fmt.Errorf("it has no column %s", s.GetName())
		}
	}
	if p.decoder, err = formats.New(p.holds.Format(), sources); err != nil {
		return err
	}
	p.decoder.Memory().AskFor(func(least, _ int64) (int64, error) { return least, p.take(least) })
	return nil
}

// extent reads the positions of one extent.
func (p *positions) extent(ctx context.Context, at int) error {
	chunks := make([]storage.Range, p.bound.Chunks())
	for i := range chunks {
		chunks[i] = p.bound.Chunk(at, i).Range
	}
	how := storage.Reading{}
	size := how.Size(chunks)
	defer func() { p.free(size) }()
	data, err := storage.ReadRanges(ctx, p.storage, p.profile, p.file, chunks, how, func(n int64) ([]byte, error) {
		if err := p.take(size); err != nil {
			return nil, err
		}
		return make([]byte, n), nil
	})
	if err != nil {
		return err
	}
	sources := make([]decode.Source, len(data))
	for i := range data {
		sources[i] = (*decode.Whole)(&data[i])
	}
	if err := p.decoder.Reset(p.file.GetUri(), p.bound, at, sources); err != nil {
		return err
	}
	extent := p.holds.Extents()[at]
	for done := int64(0); done < extent.Rows; done += pieceRows {
		n := min(pieceRows, extent.Rows-done)
		vectors, err := formats.Rows(p.decoder, extent.FirstRow+done, int(n))
		if err == nil {
			err = p.add(vectors[0], vectors[1], extent.FirstRow+done)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

var errNull = errors.New("it has a null")

// add adds rows, of which the first has this number in its file.
func (p *positions) add(paths, rows *vector.Vector, first int64) error {
	most := int64(rows.Rows)*positionBytes + int64(len(paths.Data))
	if err := p.take(most); err != nil {
		return err
	}
	grown, seen := int64(0), map[*building]int64{}
	for i := range rows.Rows {
		row := rows.I64[i]
		switch {
		case paths.IsNull(i) || rows.IsNull(i):
			return fmt.Errorf("row %d: %w", first+int64(i), errNull)
		case row < 0:
			return fmt.Errorf("row %d: the position is %d", first+int64(i), row)
		}
		if path := paths.Data[paths.Ends[i]:paths.Ends[i+1]]; p.last == nil || string(path) != p.path {
			p.flush()
			grown += p.enter(string(path))
		}
		if _, ok := seen[p.last]; !ok {
			seen[p.last] = p.last.bytes
		}
		if high := uint32(row >> 32); high != p.high {
			p.flush()
			p.high = high
		}
		p.run = append(p.run, uint32(row))
	}
	p.flush()
	for b, before := range seen {
		b.bytes = b.size()
		grown += b.bytes - before
	}
	p.free(most - grown)
	return nil
}

// enter has the rows that come be of a file, and returns what it takes to know of it.
func (p *positions) enter(path string) (bytes int64) {
	p.path, p.last = path, p.of[path]
	if p.last == nil {
		p.last = &building{parts: map[uint32]*roaring.Bitmap{}}
		p.of[path] = p.last
		return pathBytes + int64(len(path))
	}
	return 0
}

// flush adds the rows that were found to their bitmap.
func (p *positions) flush() {
	if len(p.run) == 0 {
		return
	}
	of := p.last.parts[p.high]
	if of == nil {
		of = roaring.New()
		p.last.parts[p.high] = of
	}
	of.AddMany(p.run)
	p.run = p.run[:0]
}

// size is about what the bitmaps take. Arrays may have grown to twice their length.
func (b *building) size() (bytes int64) {
	for _, of := range b.parts {
		s := of.Stats()
		bytes += partBytes + containerBytes*int64(s.Containers) + 2*int64(s.ArrayContainerBytes) +
			int64(s.BitmapContainerBytes) + int64(s.RunContainerBytes)
	}
	return bytes
}

// told is what was found.
func (p *positions) told() told {
	out := told{byPath: make(map[string]*Rows, len(p.of))}
	for path, b := range p.of {
		rows := &Rows{size: b.bytes}
		for high, low := range b.parts {
			rows.parts = append(rows.parts, part{high, low})
		}
		slices.SortFunc(rows.parts, func(x, y part) int { return int(int64(x.high) - int64(y.high)) })
		out.byPath[path] = rows
		out.size += rows.size + pathBytes + int64(len(path))
	}
	return out
}
