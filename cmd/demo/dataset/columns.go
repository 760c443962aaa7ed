package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// formatVersion is raised whenever the same parameters give other bytes.
const formatVersion = 2

// Column says how the values of one column are distributed. Probabilities are in 1/1024.
type Column struct {
	Name string
	Kind Kind
	Null int // rows that are null
	// Dense: values are ranks shifted down by Shift, so that some are negative.
	Shift int
	// Sparse: rows that are empty lists, the least number of 1024 longer lists among those of each length, and the
	// longest (at most 32,767).
	Empty, Longer, Longest int
	// Dense and Sparse: values are drawn from ranks 1 to Ranks with weight 1/(rank+Offset).
	Ranks, Offset int
	// Real: values lie from Low, which is positive, to below High, as many in each octave.
	Low, High float32
	// JPEG: the size of the photographs.
	Width, Height int
}

// Kind is what a column holds.
type Kind int

const (
	// Label is int32, 0 or 1. It follows from the first Dense and Sparse columns, if there are any.
	Label Kind = iota
	// Dense is float32, whole numbers, a few of them frequent.
	Dense
	// Sparse is a list of int64 ids, a few of them frequent.
	Sparse
	// Row is int64, the row's number in the dataset.
	Row
	// Real is float32, hardly any two values alike.
	Real
	// JPEG is binary: a file with a photograph, or what looks like one to a decoder.
	JPEG
)

const (
	denseColumns  = 13
	sparseColumns = 26
	longestList   = 24
	// Labels of 1, in 1/1024: of all rows, and how many more for each of two features that tell of them.
	baseRate = 30
	raisedBy = 220
)

// CriteoColumns are those of Criteo. Sizes of vocabularies, lengths of lists and shares of nulls vary from column
// to column, since real ones do.
func CriteoColumns() []Column {
	columns := []Column{{Name: "label", Kind: Label}}
	for i := range denseColumns {
		columns = append(columns, Column{
			Name: fmt.Sprintf("int_%d", i), Kind: Dense,
			Null:  102 + i*8, // 10% to 20%
			Shift: 1 + i%3, Ranks: 50 << i, Offset: i % 4,
		})
	}
	for i := range sparseColumns {
		ranks := 100 << (i % 14) // 100 to 819,200
		columns = append(columns, Column{
			Name: fmt.Sprintf("cat_%d", i), Kind: Sparse,
			Null: 20 + i*7%100, Empty: 10 + i*11%60,
			Longer: 340 + i*37%26*22, Longest: longestList, // means from 1.5 to 6.3
			Ranks: ranks, Offset: i % 7,
		})
	}
	return columns
}

// checksum names the parameters in the manifest and the directory.
func (t Table) checksum() string {
	h := sha256.New()
	fmt.Fprintln(h, formatVersion, baseRate, raisedBy, t.FileRows, t.GroupRows, rowsPerFile, rowsPerGroup, smallestFile,
		filesIfSmall, groupsOfAFile, smallestGroup)
	for _, c := range t.Columns {
		fmt.Fprintf(h, "%+v\n", c)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
