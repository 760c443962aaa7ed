package tfrecord_test

import (
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestFilesOfOthers: files that others wrote have the rows of their twins.
func TestFilesOfOthers(t *testing.T) {
	for _, o := range filetest.Others(t, "tfrecord") {
		t.Run(o.File, func(t *testing.T) { formattest.EqualTwin(t, o, o.How(t)) })
	}
}
