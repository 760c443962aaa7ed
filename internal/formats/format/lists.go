package format

import "context"

// Lister is a Scanned of a format for which other tools list where the records of a file are, in one beside it:
// tfrecord2idx, wds2idx.
type Lister interface {
	Scanned
	// Lists are the names that such a list of a file may have, in its folder. There are none of a file that a list does
	// not tell of.
	Lists(name string) []string
	// ScanList is Scan by a list, of which no more is believed than a few small reads of the file tell. It fails if the
	// list cannot be the file's; what it handed on until then is of no use.
	ScanList(ctx context.Context, in *Input, list []byte, found func(Place) error) error
}
