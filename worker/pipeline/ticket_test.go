package pipeline

import (
	"errors"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// besides is a file of one row, of which another one says where that is.
type besides struct {
	format.File
	format.Beside
	digest byte
}

func (besides) Extents() []format.Extent { return []format.Extent{{Rows: 1}} }
func (besides) Extent() string           { return "extent" }
func (b besides) Digest() []byte         { return []byte{b.digest, 0, 0, 0, 0, 0, 0, 0} }

// TestTicketOfAnotherFileBeside: a ticket is refused if the file beside it says something else than when it was planned.
func TestTicketOfAnotherFileBeside(t *testing.T) {
	of := &pb.Ticket{Extents: []*pb.Extent{{Rows: 1, WindowRows: 1, Beside: format.BesideOf(besides{digest: 1})}}}
	if err := checkTicket(besides{digest: 1}, of); err != nil {
		t.Error(err)
	}
	if err := checkTicket(besides{digest: 2}, of); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("another one: %v", err)
	}
}
