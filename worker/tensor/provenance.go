package tensor

import "slices"

// provenanceFile is the index of each row's file in the listing.
type provenanceFile struct{}

func (provenanceFile) size(_ *Window, from, to int) (n, spare int64) { return 4 * int64(to-from), 0 }

func (provenanceFile) build(b *Batch, w *Window, from, to int) error {
	dst := room[int32](b, to-from)
	for i := range dst {
		dst[i] = int32(w.File.GetIndex())
	}
	b.add(len(dst), bytesOf(dst))
	return nil
}

// provenanceRow is each row's number in its file.
type provenanceRow struct{}

func (provenanceRow) size(_ *Window, from, to int) (n, spare int64) { return 8 * int64(to-from), 0 }

func (provenanceRow) build(b *Batch, w *Window, from, to int) error {
	dst := room[int64](b, to-from)
	for i := range dst {
		dst[i] = w.RowOf(w.Source(from + i))
	}
	b.add(len(dst), bytesOf(dst))
	return nil
}

// provenancePart is each row's number among those that were made of its row of the file.
type provenancePart struct{}

func (provenancePart) size(_ *Window, from, to int) (n, spare int64) { return 4 * int64(to-from), 0 }

func (provenancePart) build(b *Batch, w *Window, from, to int) error {
	dst := room[int32](b, to-from)
	for i := range dst {
		dst[i] = 0
		if w.Chosen != nil {
			at := w.Source(from + i)
			first, _ := slices.BinarySearch(w.Chosen[:at], w.Chosen[at])
			dst[i] = int32(at - first)
		}
	}
	b.add(len(dst), bytesOf(dst))
	return nil
}
