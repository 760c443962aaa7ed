package columns

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
)

// Plan says, source by source, how a row group's column chunks are read: "list<int64>: zstd, RLE_DICTIONARY PLAIN". It
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
	for i, b := range l.bindings {
		t := spec.TypeFromProto(sources[i].GetType())
		if b.access == absent {
			out[i] = fmt.Sprintf("%s: absent from the file", t)
			continue
		}
		leaf := l.leaves[b.value].leaf
		c := &f.RowGroups[rg].Chunks[leaf]
		codec, ratio := codecLimits(c.Codec)
		if ratio == 0 && c.Values > 0 {
			out[i] = fmt.Sprintf("%s: %s cannot be read", t, codec)
			continue
		}
		var how []string
		for _, e := range c.Encodings {
			how = append(how, encoding(e).String())
		}
		out[i] = fmt.Sprintf("%s: %s, %s", t, codec, strings.Join(how, " "))
		if from := f.Leaves[leaf].Kind; from != t.Kind {
			out[i] += fmt.Sprintf(", widened from %s", spec.Type{Kind: from})
		}
		if b.access == mapKey {
			out[i] += fmt.Sprintf(", key %q of the map", sources[i].GetKey())
		}
	}
	return out, nil
}
