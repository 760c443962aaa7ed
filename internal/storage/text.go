package storage

import (
	"path"
	"slices"
	"strings"
)

// Convert is what to do about tables of text.
const Convert = "CSV and TSV files are not read as they are: `penstock convert` makes Parquet of them"

// IsText tells tables of text by their names.
func IsText(name string) bool {
	return slices.Contains([]string{".csv", ".tsv", ".tab", ".txt"}, path.Ext(Uncompressed(name)))
}

// Uncompressed is a file's name in lower case without the suffix of its compression.
func Uncompressed(name string) string {
	name = strings.ToLower(name)
	for _, suffix := range []string{".gz", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
