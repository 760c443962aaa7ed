package convert

import (
	"encoding/binary"
	"fmt"

	parquetprops "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
)

// Julian days that an int64 of nanoseconds since 1970 holds in full.
const (
	firstInt96 = 2_440_588 - 106_751
	lastInt96  = 2_440_588 + 106_750
)

// checkInt96 refuses times that arrow's reader would make others of, without a word: it counts them in nanoseconds.
// They are read once more for that, as statistics of such columns mean nothing.
func checkInt96(pf *parquetfile.Reader) error {
	s := pf.MetaData().Schema
	for leaf := range s.NumColumns() {
		if s.Column(leaf).PhysicalType() != parquetprops.Types.Int96 {
			continue
		}
		for group := range pf.NumRowGroups() {
			if err := checkInt96Chunk(pf, group, leaf); err != nil {
				return fmt.Errorf("row group %d, column %s: %w", group, s.Column(leaf).Path(), err)
			}
		}
	}
	return nil
}

func checkInt96Chunk(pf *parquetfile.Reader, group, leaf int) error {
	column, err := pf.RowGroup(group).Column(leaf)
	if err != nil {
		return err
	}
	values := make([]parquetprops.Int96, batchRows)
	levels, repeated := make([]int16, batchRows), make([]int16, batchRows)
	chunk := column.(*parquetfile.Int96ColumnChunkReader)
	for chunk.HasNext() {
		_, n, err := chunk.ReadBatch(batchRows, values, levels, repeated)
		if err != nil {
			return err
		}
		for _, v := range values[:n] {
			if day := binary.LittleEndian.Uint32(v[8:]); day < firstInt96 || day > lastInt96 {
				return fmt.Errorf("its time %d days from 1970 is not between 1677 and 2262, which is what nanoseconds "+
					"count; write the column as timestamp[us]", int64(day)-2_440_588)
			}
		}
	}
	return chunk.Err()
}
