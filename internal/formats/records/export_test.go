package records

import (
	"io"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

// ScanReader scans what a reader gives.
func (f *File) ScanReader(in io.Reader, take func(int64) error, found func(format.Place) error) error {
	return f.scan(in, take, found)
}
