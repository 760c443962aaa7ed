package storage

import (
	"path"
	"strings"
)

// AsText is what to do about files of text whose names do not tell a format.
const AsText = "if it is a table of text, say how it is read, as dataset.format: CSV, or `penstock convert` it"

// IsText tells files of text by their names that may be tables, with any delimiter.
func IsText(name string) bool { return path.Ext(Uncompressed(name)) == ".txt" }

// Uncompressed is a file's name in lower case without the suffix of its compression.
func Uncompressed(name string) string {
	name = strings.ToLower(name)
	for _, suffix := range []string{".gz", ".zst", ".zstd"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
