package encode

import "github.com/penstock-ml/penstock/internal/formats/parquet/thrift"

// pageInfo is what page indexes say of a data page.
type pageInfo struct {
	at, size   int   // bytes in the chunk, with the header
	row, nulls int64 // the first row
	empty      bool  // nothing but nulls
	bounds     bounds
}

// columnIndex encodes a ColumnIndex, of pages that have bounds where they have values.
func columnIndex(k *kind, pages []pageInfo) []byte {
	m := newMessage(nil)
	m.list(1, len(pages), thrift.True)
	for i := range pages {
		if pages[i].empty {
			m.out = append(m.out, byte(thrift.True))
		} else {
			m.out = append(m.out, byte(thrift.False))
		}
	}
	m.list(2, len(pages), thrift.Binary)
	for i := range pages {
		m.out = appendBytes(m.out, pages[i].bounds.min)
	}
	m.list(3, len(pages), thrift.Binary)
	for i := range pages {
		m.out = appendBytes(m.out, pages[i].bounds.max)
	}
	m.int32(4, boundaryOrder(k, pages))
	m.list(5, len(pages), thrift.I64)
	for i := range pages {
		m.out = appendInt64(m.out, pages[i].nulls)
	}
	return m.finish()
}

// boundaryOrder says how pages' bounds follow each other, numbered as in parquet.thrift.
func boundaryOrder(k *kind, pages []pageInfo) int {
	up, down := true, true
	var last *bounds
	for i := range pages {
		if pages[i].empty {
			continue
		}
		b := &pages[i].bounds
		if last != nil {
			lo, hi := k.compare(last.min, b.min), k.compare(last.max, b.max)
			up, down = up && lo <= 0 && hi <= 0, down && lo >= 0 && hi >= 0
		}
		last = b
	}
	switch {
	case up:
		return 1
	case down:
		return 2
	}
	return 0
}

// offsetIndex encodes an OffsetIndex of a chunk at this byte of the file.
func offsetIndex(pages []pageInfo, at int64) []byte {
	m := newMessage(nil)
	m.list(1, len(pages), thrift.Struct)
	for i := range pages {
		m.element()
		m.int64(1, at+int64(pages[i].at))
		m.int32(2, pages[i].size)
		m.int64(3, pages[i].row)
		m.end()
	}
	return m.finish()
}

// writeIndexes writes all column indexes, and then all offset indexes, as readers expect that take many at once.
func (f *file) writeIndexes() error {
	var out []byte
	for g := range f.groups {
		chunks := f.groups[g].chunks
		for i := range chunks {
			chunks[i].columnIndexAt = f.at + int64(len(out))
			out = append(out, chunks[i].columnIndex...)
		}
	}
	if err := f.write(out); err != nil {
		return err
	}
	out = out[:0]
	for g := range f.groups {
		chunks := f.groups[g].chunks
		for i := range chunks {
			chunks[i].offsetIndexAt = f.at + int64(len(out))
			out = append(out, chunks[i].offsetIndex...)
		}
	}
	return f.write(out)
}
