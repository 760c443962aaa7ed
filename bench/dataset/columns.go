package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// formatVersion is raised whenever the same parameters give other bytes.
const formatVersion = 2

// column says how the values of one column are distributed. Probabilities are in 1/1024.
type column struct {
	Name string
	Kind columnKind
	Null int // rows that are null
	// Dense: values are ranks shifted down by Shift, so that some are negative.
	Shift int
	// Sparse: rows that are empty lists, and the least number of 1024 longer lists among those of each length.
	Empty, Longer int
	// Values are drawn from ranks 1 to Ranks with weight 1/(rank+Offset).
	Ranks, Offset int
}

type columnKind int

const (
	label columnKind = iota
	dense
	sparse
)

const (
	denseColumns  = 13
	sparseColumns = 26
	longestList   = 24
	firstDense    = 1 // index of the column
	firstSparse   = firstDense + denseColumns
	// Labels of 1, in 1/1024: of all rows, and how many more for each of two features that tell of them.
	rarely = 30
	often  = 220
)

// criteoColumns describes the dataset. Sizes of vocabularies, lengths of lists and shares of nulls vary from column
// to column, since real ones do.
func criteoColumns() []column {
	columns := []column{{Name: "label", Kind: label}}
	for i := range denseColumns {
		columns = append(columns, column{
			Name: fmt.Sprintf("int_%d", i), Kind: dense,
			Null:  102 + i*8, // 10% to 20%
			Shift: 1 + i%3, Ranks: 50 << i, Offset: i % 4,
		})
	}
	for i := range sparseColumns {
		ranks := 100 << (i % 14) // 100 to 819,200
		columns = append(columns, column{
			Name: fmt.Sprintf("cat_%d", i), Kind: sparse,
			Null: 20 + i*7%100, Empty: 10 + i*11%60,
			Longer: 340 + i*37%26*22, // means from 1.5 to 6.3
			Ranks:  ranks, Offset: i % 7,
		})
	}
	return columns
}

// checksum names the parameters in the manifest and the directory.
func checksum(columns []column) string {
	h := sha256.New()
	fmt.Fprintln(h, formatVersion, longestList, rarely, often, rowsPerFile, rowsPerGroup, smallestFile, filesIfSmall, groupsOfAFile, smallestGroup)
	for _, c := range columns {
		fmt.Fprintf(h, "%+v\n", c)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
