package demo

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/client"
)

// delivered makes records of what a trainer is handed.
type delivered struct {
	names  []string // of the columns whose values are in the checksums
	hasher *hasher
	// Where they are in a batch, alike in all of them.
	found                 bool
	labels, dense, sparse []int
}

func newDelivered(names []string) *delivered { return &delivered{names: names, hasher: newHasher()} }

// each calls add with the rows of a batch that are no padding.
func (d *delivered) each(b *client.Batch, add func(record) error) error {
	if !d.found {
		if err := d.find(b); err != nil {
			return err
		}
	}
	for i := range b.Valid {
		d.hasher.begin(b.Files[i], b.RowIDs[i])
		for _, at := range d.labels {
			d.hasher.label(b.Labels[at].I32[i])
		}
		for _, at := range d.dense {
			d.hasher.number(b.Dense[i*len(b.DenseNames)+at])
		}
		for _, at := range d.sparse {
			s := &b.Sparse[at]
			d.hasher.ids(s.Values[s.Offsets[i]:s.Offsets[i+1]])
		}
		if err := add(record{file: b.Files[i], row: b.RowIDs[i], checksum: d.hasher.sum()}); err != nil {
			return err
		}
	}
	return nil
}

// find finds the columns. As in the table, labels come first, then numbers, then lists, so that the order is that of
// written.
func (d *delivered) find(b *client.Batch) error {
	for _, name := range d.names {
		if at := slices.IndexFunc(b.Labels, func(l client.Label) bool {
			return l.Name == name &&
				l.I32 != nil
		}); at >= 0 {
			d.labels = append(d.labels, at)
		} else if at := slices.Index(b.DenseNames, name); at >= 0 {
			d.dense = append(d.dense, at)
		} else if at := slices.IndexFunc(b.Sparse, func(s client.Sparse) bool { return s.Name == name }); at >= 0 {
			d.sparse = append(d.sparse, at)
		} else {
			return fmt.Errorf("demo: batches lack the column %s", name)
		}
	}
	d.found = true
	return nil
}
