package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
)

// Plan says, source by source, how a row group's column chunks are read: "zstd, RLE_DICTIONARY PLAIN". It
// reads the footer only, so that damage does not show.
func Plan(f *footer.Footer, rg int, sources []*pb.Source) ([]string, error) {
	l, err := resolve(f, sources)
	if err != nil {
		return nil, err
	}
	if rg < 0 || rg >= len(f.RowGroups) {
		return nil, fmt.Errorf("row group %d of %d", rg, len(f.RowGroups))
	}
	out := make([]string, len(sources))
	for i, source := range sources {
		b := l.bindings[i]
		switch b.access {
		case absent:
			out[i] = "absent from the file"
			continue
		case nulls:
			out[i] = "nulls without a type"
			continue
		}
		leaf := l.leaves[b.value].leaf
		c := &f.RowGroups[rg].Chunks[leaf]
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
		switch from := f.Leaves[leaf].Kind; from {
		case source.GetType().GetKind():
		case pb.Kind_KIND_UNSPECIFIED:
			out[i] += ", without a type: no element"
		default:
			out[i] += fmt.Sprintf(", widened from %s", spec.Type{Kind: from})
		}
		if b.access == mapKey {
			out[i] += fmt.Sprintf(", key %q of the map", source.GetKey())
		}
	}
	return out, nil
}

// Indexed reports whether pages of a chunk hold indices into a dictionary.
func Indexed(c *footer.Chunk) bool {
	return slices.ContainsFunc(c.Encodings, func(e int32) bool { return encoding(e).indexed() })
}
