package storage

import (
	"path"
	"slices"
	"strings"
)

// Convert is what to do about tables of text.
const Convert = "of CSV and TSV files `penstock convert` makes Parquet"

// IsText tells tables of text by their names.
func IsText(name string) bool {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, packed)
	}
	return slices.Contains([]string{".csv", ".tsv", ".tab", ".txt"}, path.Ext(name))
}
