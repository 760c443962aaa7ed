package formats_test

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/storage"
)

// TestListingsTakeFilesOfEachFormat: a directory's listing knows the endings of all formats.
func TestListingsTakeFilesOfEachFormat(t *testing.T) {
	for _, f := range formats.All() {
		for _, ending := range f.Extensions() {
			if got := storage.FormatOf("s3://bucket/x" + ending); got != f.Name() {
				t.Errorf("a listing takes x%s for %q, want %q", ending, got, f.Name())
			}
		}
		names := []string{f.Name()}
		if of, ok := f.(records.Format); ok {
			names = append(names, of.Aliases()...)
		}
		if got := storage.NamesOf(f.Name()); !slices.Equal(got, names) {
			t.Errorf("a listing knows %s as %v, want %v", f.Name(), got, names)
		}
	}
}
