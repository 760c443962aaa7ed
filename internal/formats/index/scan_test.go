package index_test

import (
	"context"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
)

// many is a file of so many extents.
type many struct {
	format.Scanned
	extents int
}

func (many) Format() string  { return "many" }
func (many) Version() uint32 { return 1 }

func (m many) Scan(_ context.Context, _ *format.Input, found func(format.Place) error) error {
	for i := range m.extents {
		err := found(format.Place{
			Extent: format.Extent{Rows: 1}, Stored: storage.Range{Offset: int64(i), Length: 1}, Bytes: 1,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestAScanAsksForWhatItsIndexTakes: an index of many extents is asked for as it grows, with its copies, and a little
// one is not.
func TestAScanAsksForWhatItsIndexTakes(t *testing.T) {
	for _, extents := range []int{10, 2_000_000} {
		taken := int64(0)
		in := &format.Input{File: &pb.File{Size: int64(extents)}, Take: func(n int64) error { taken += n; return nil }}
		x, err := index.Scan(t.Context(), in, many{extents: extents})
		if err != nil {
			t.Fatal(err)
		}
		if least := int64(4 * (len(x.Bytes()) - 2<<20)); taken < least || extents == 10 && taken > 0 {
			t.Errorf("an index of %d bytes asked for %d", len(x.Bytes()), taken)
		}
	}
}
