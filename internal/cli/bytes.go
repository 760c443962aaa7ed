package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Bytes is a flag's number of bytes, written like 256MiB.
type Bytes int64

// String writes the number with a binary unit.
func (b *Bytes) String() string { return strings.ReplaceAll(humanize.IBytes(uint64(*b)), " ", "") }

// Set reads "256MiB", "1GB" or a plain number.
func (b *Bytes) Set(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("want bytes such as 256MiB, found %q", s)
	}
	*b = Bytes(n)
	return nil
}

// Type names the value in --help.
func (*Bytes) Type() string { return "bytes" }
