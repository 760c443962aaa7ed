package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// reset begins a row group whose chunks are in memory.
func (d *Decoder) reset(file string, f *footer.Footer, rg int, chunks [][]byte) error {
	return d.resetSources(file, f, rg, wholes(chunks))
}

func wholes(chunks [][]byte) []decode.Source {
	sources := make([]decode.Source, len(chunks))
	for i := range chunks {
		sources[i] = (*decode.Whole)(&chunks[i])
	}
	return sources
}

// resetSources binds the decoder's sources, unless they are already, and begins a row group.
func (d *Decoder) resetSources(file string, f *footer.Footer, rg int, chunks []decode.Source) error {
	b, err := d.boundTo(f)
	if err != nil {
		d.err = err
		return fmt.Errorf("%s: %w", file, err)
	}
	return d.Reset(file, b, rg, chunks)
}

func (d *Decoder) boundTo(f *footer.Footer) (*footer.Bound, error) {
	if d.bound != nil && d.bound.Footer == f {
		return d.bound, nil
	}
	return f.Bind(d.sources)
}

// usePages has rows be passed over by page indexes, one for each of the columns.
func (d *Decoder) usePages(pages [][]footer.Page) error {
	return d.Select(&footer.Selection{Pages: pages})
}

// chunksOf are where the chunks of a row group lie.
func (d *Decoder) chunksOf(f *footer.Footer, rg int) ([]storage.Range, error) {
	b, err := d.boundTo(f)
	if err != nil {
		return nil, err
	}
	if rg < 0 || rg >= len(f.RowGroups) {
		return nil, fmt.Errorf("row group %d of %d", rg, len(f.RowGroups))
	}
	out := make([]storage.Range, b.Chunks())
	for i := range out {
		out[i] = b.Chunk(rg, i).Range
	}
	return out, nil
}

// leavesOf are the leaves that sources need.
func leavesOf(f *footer.Footer, sources []*pb.Source) ([]int, error) {
	b, err := f.Bind(sources)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, use := range b.Uses {
		out = append(out, use.Leaf)
	}
	return out, nil
}

// explain says how sources are read.
func explain(f *footer.Footer, rg int, sources []*pb.Source) ([]string, error) {
	b, err := f.Bind(sources)
	if err != nil {
		return nil, err
	}
	return NewDecoder(sources, 0).Explain(b, rg)
}
