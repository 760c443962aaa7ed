package storage

import (
	"fmt"
	"path"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// dataEndings are the endings of files that a directory's listing takes.
const dataEndings = ".parquet, .parq, .pq, .arrow, .feather, .ipc, .jsonl, .ndjson, .mds, .ds, .tar, .tgz, .csv, .tsv, " +
	".tab, .tfrecord, .tfrecords or .tfrec"

// FormatOf is the name of the format that a file's name tells; "" if it tells none.
func FormatOf(uri string) string {
	switch path.Ext(Uncompressed(uri)) {
	case ".jsonl", ".ndjson":
		return "JSON lines"
	case ".tar", ".tgz":
		return "WebDataset"
	case ".mds":
		return "MDS"
	case ".csv":
		return "CSV"
	case ".tsv", ".tab":
		return "TSV"
	case ".tfrecord", ".tfrecords", ".tfrec":
		return "TFRecord"
	}
	switch strings.ToLower(path.Ext(uri)) {
	case ".ds":
		return "tokens"
	case ".parquet", ".parq", ".pq":
		return "Parquet"
	case ".arrow", ".feather", ".ipc":
		return "Arrow"
	}
	return ""
}

// oneFormat refuses files of several formats that a directory has: they might be the same rows twice.
func oneFormat(dir string, files []*pb.File) error {
	for _, f := range files {
		first, other := files[0].GetUri(), f.GetUri()
		if FormatOf(other) == FormatOf(first) {
			continue
		}
		return fmt.Errorf(
			"there are files of several formats, %s (%s) and %s (%s): say which to read, such as %s**/*%s",
			first, FormatOf(first), other, FormatOf(other), dir, path.Ext(first))
	}
	return nil
}
