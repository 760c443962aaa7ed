package tensor

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
