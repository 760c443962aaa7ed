package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Converting is a folder that lies in the place of an unfinished conversion.
const Converting = "_penstock_converting"

// tableError says that a directory is a table, of whose files only a log tells which count: those that were removed or
// replaced lie there still. Prefix is that of its URIs; "": such tables cannot be read.
func tableError(kind, prefix, root, marker string) error {
	do := "name it as " + prefix + "+" + strings.TrimSuffix(root, "/")
	if prefix == "" {
		do = "its log cannot be read: write the table's rows as Parquet files into another directory, or list the " +
			"files of its present version one by one in dataset.uri"
	}
	return fmt.Errorf("%s is a table of %s (%s lies there), and may hold files whose rows were deleted or replaced; %s",
		root, kind, marker, do)
}

// tableOf returns an error if a URI below base, which ends in "/", is that of a table's own file or directory.
func tableOf(base, uri string) error {
	levels := strings.Split(strings.TrimPrefix(uri, base), "/")
	for i, level := range levels[:len(levels)-1] {
		root, next := base+strings.Join(levels[:i], "/"), levels[i+1]
		if i > 0 {
			root += "/"
		}
		switch {
		case level == "_delta_log":
			return tableError("Delta Lake", "delta", root, "_delta_log/")
		case level == Converting:
			return fmt.Errorf("a conversion to %s is not finished (%s/ lies there): run the same `penstock convert` again, "+
				"which ends it", root, Converting)
		case level == ".hoodie":
			return tableError("Hudi", "", root, ".hoodie/")
		case level == "metadata" && strings.HasSuffix(next, ".metadata.json") &&
			strings.ContainsAny(next[:1], "v0123456789"):
			return tableError("Iceberg", "iceberg", root, "metadata/"+next)
		}
	}
	return nil
}

// checkRoot looks for a table where a listing below base does not see it: in base, if only a part of that is listed,
// and in the directory that base is a partition of, or the data of.
func checkRoot(ctx context.Context, b object.Backend, base string, part bool) error {
	root := base
	for strings.Contains(path.Base(root), "=") {
		above, ok := strings.CutSuffix(root, path.Base(root)+"/")
		if !ok {
			break
		}
		root = above
	}
	if part || root != base {
		for _, marker := range []string{"_delta_log/", ".hoodie/", "metadata/"} {
			if err := checkMarker(ctx, b, root, marker); err != nil {
				return err
			}
		}
	}
	if above, ok := strings.CutSuffix(root, "/data/"); ok && !strings.HasSuffix(above, "/") { // as Iceberg has it
		return checkMarker(ctx, b, above+"/", "metadata/")
	}
	return nil
}

// maxMarkers is how many files are looked at in a directory that may be a table's.
const maxMarkers = 1000

var errEnough = errors.New("enough was looked at")

// checkMarker looks into a directory of a table's own.
func checkMarker(ctx context.Context, b object.Backend, root, marker string) error {
	looked := 0
	err := b.List(ctx, object.Query{Prefix: root + marker, Flat: true}, func(f *pb.File) error {
		if err := tableOf(root, f.GetUri()); err != nil {
			return err
		}
		if looked++; looked == maxMarkers {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrDenied) ||
		errors.Is(err, fs.ErrPermission) {
		return nil // as far as one who may not look there can tell
	}
	return err
}
