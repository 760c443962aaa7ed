package pipeline

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/transform"
)

// expected is what a stream expects of a window, whatever a kit brought.
type expected struct {
	sources        []format.Size // of each the largest
	rows           int64
	bytes, results int64 // of all sources, and of what is made of them
	tables         int64 // that steps look up
}

// expect is what a file lets expect of the windows of extents.
func expect(file format.Read, program *pb.Program, chain *transform.Chain, groups []*pb.Extent) expected {
	e := expected{tables: chain.Tables()}
	for _, g := range groups {
		rows := min(g.GetWindowRows(), g.GetRows())
		sources, bytes := sourceSizes(file, program, g, rows)
		e.see(sources, rows)
		e.bytes, e.results = max(e.bytes, bytes), max(e.results, resultBytes(program, chain, sources, rows))
	}
	return e
}

// see expects no less than a window of such sources, and reports whether that was more than before.
func (e *expected) see(sources []format.Size, rows int64) (more bool) {
	e.rows = max(e.rows, rows)
	if e.sources == nil {
		e.sources = make([]format.Size, len(sources))
	}
	for i, z := range sources {
		have := &e.sources[i]
		more = more || z.Values > have.Values || z.Bytes > have.Bytes
		*have = format.Size{Values: max(have.Values, z.Values), Bytes: max(have.Bytes, z.Bytes)}
	}
	return more
}

// sourceSizes estimates the sources of a window of an extent, and all that they take.
func sourceSizes(file format.Read, program *pb.Program, g *pb.Extent, rows int64) (sizes []format.Size, bytes int64) {
	maps := make(map[string]bool) // that are decoded, once for all of their keys
	for i, src := range program.GetSources() {
		z := file.Window(int(g.GetIndex()), i, rows)
		if src.Key != nil {
			name, all := spec.ColumnName(src.GetPath(), src.GetField()), z
			z = format.Size{Values: rows, Bytes: 16 * rows} // a value and its place
			if src.GetType().GetList() && all.Entries > 0 { // as many, and as long, as an entry has
				each := float64(rows) / float64(all.Entries)
				z.Values = int64(each * float64(all.Values-all.Entries))
				z.Bytes += int64(each * float64(all.Bytes))
			}
			if !maps[name] {
				maps[name], bytes = true, bytes+all.Bytes
			}
		}
		sizes = append(sizes, z)
		bytes += z.Bytes
	}
	return sizes, bytes
}

// resultBytes is what the steps make of a window of so many rows, whose sources are of such sizes.
func resultBytes(program *pb.Program, chain *transform.Chain, sources []format.Size, rows int64) int64 {
	sizes := append(make([]format.Size, 0, len(sources)+len(program.GetSteps())), sources...)
	bytes := 5 * rows // the selection: a bit and an int32
	made := 0         // by how many steps
	for _, step := range program.GetSteps() {
		if step.GetOuts() == 0 {
			if step.GetPython() != nil {
				made++
			}
			continue
		}
		var z format.Size
		for _, slot := range step.GetIn() {
			z.Values += sizes[slot].Values
			z.Bytes += sizes[slot].Bytes
		}
		z.Values = max(z.Values, chain.Makes(made, rows))
		made++
		for _, t := range append([]*pb.Type{step.GetType()}, step.GetMore()...) {
			z := resultSize(t, z, rows)
			if sizes = append(sizes, z); step.GetPython() == nil { // a function asks for what it makes
				bytes += z.Bytes
			}
		}
	}
	return bytes
}

// resultSize is about what a result of a type takes, of inputs of a size together.
func resultSize(t *pb.Type, of format.Size, rows int64) format.Size {
	switch kind := t.GetKind(); {
	case kind == pb.Kind_PICTURE:
		of.Bytes = 0 // what it is made of, until it is in a batch
	case t.GetList(), kind == pb.Kind_BINARY:
		of.Bytes = max(of.Bytes, widthOf(kind)*of.Values+4*rows)
	default: // slices grow by more than they need, and there is a bitmap
		of = format.Size{Values: rows, Bytes: widthOf(kind)*(rows+rows/8+64) + rows/4}
	}
	return of
}

// widthOf is how many bytes a value of a kind takes, beside those of strings themselves.
func widthOf(k pb.Kind) int64 {
	switch k {
	case pb.Kind_BOOL:
		return 1
	case pb.Kind_INT32, pb.Kind_FLOAT32, pb.Kind_BINARY:
		return 4
	}
	return 8
}
