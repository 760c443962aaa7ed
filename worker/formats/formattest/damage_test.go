package formattest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestRecords holds small files of each kind, which their own writers wrote, plain and compressed.
func TestRecords(t *testing.T) {
	for name, isText := range map[string]bool{
		"jsonl/nested.jsonl": true, "jsonl/members.jsonl.gz": false, "csv/pyarrow.csv": true, "csv/frames.csv.zst": true,
		"webdataset/nested.tar": false, "webdataset/frames.tar.zst": false, "tfrecord/nested.tfrecord": false,
		"tfrecord/members.tfrecord.gz": false, "mds/plain/shard.00000.mds": false, "mds/zstd/shard.00000.mds.zstd": false,
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("../../../internal/formats/filetest/others/" + name)
			if err != nil {
				t.Fatal(err)
			}
			formattest.Records(t, formattest.File{Name: filepath.Base(name), Data: data}, isText)
		})
	}
}

// TestEmptyFiles are errors.
func TestEmptyFiles(t *testing.T) {
	for _, name := range []string{"a.csv", "a.tar", "a.mds", "a.tar.gz"} {
		file := formattest.File{Name: name}
		if err := file.Read(t.Context()); err == nil {
			t.Errorf("%s can be read", name)
		}
	}
}
