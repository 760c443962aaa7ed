package parquet

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// Explain says, source by source, how a row group's column chunks are read: "zstd, RLE_DICTIONARY PLAIN". It reads the
// footer only, so that damage does not show.
func (d *Decoder) Explain(of format.Bound, rg int) ([]string, error) {
	bound, ok := of.(*footer.Bound)
	if !ok || rg < 0 || rg >= len(bound.RowGroups) {
		return nil, fmt.Errorf("there is no row group %d", rg)
	}
	f, out := bound.Footer, make([]string, len(d.sources))
	for i, source := range d.sources {
		at := bound.Bindings[i]
		switch at.Access {
		case format.Absent:
			out[i] = "absent from the file"
			continue
		case format.Nulls:
			out[i] = "nulls without a type"
			continue
		}
		leaf := bound.Uses[at.Value].Leaf
		c := f.ChunkOf(rg, leaf)
		codec, ratio := codecLimits(c.Codec)
		if ratio == 0 && c.Values > 0 {
			out[i] = codec + " cannot be read"
			continue
		}
		var how []string
		for _, e := range c.Encodings {
			how = append(how, encoding(e).String())
		}
		out[i] = fmt.Sprintf("%s, %s", codec, strings.Join(how, " "))
		if c.Crypt != nil {
			out[i] += ", encrypted"
		}
		switch from, kind := f.Leaves[leaf].Kind, source.GetType().GetKind(); {
		case from == pb.Kind_KIND_UNSPECIFIED:
			out[i] += ", without a type: no element"
		case from != kind && !spec.Small(kind):
			out[i] += fmt.Sprintf(", widened from %s", spec.Type{Kind: from})
		}
		if at.Access == format.MapKey {
			out[i] += fmt.Sprintf(", key %q of the map", source.GetKey())
		}
	}
	return out, nil
}
