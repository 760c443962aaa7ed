package master

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
)

const (
	// digestRuns bounds the digests that States carry of a block's indexes: one for each file, or for some files that
	// follow each other, so that a difference can name them. Each has runBytes.
	digestRuns, runBytes = 32, 8
)

// pinnedFiles are the files of a block of which States tell more than the listing does, in the block's order.
type pinnedFiles []plan.File

func pinnedOf(files []plan.File) (out pinnedFiles) {
	for _, f := range files {
		if pin(f) != nil {
			out = append(out, f)
		}
	}
	return out
}

// pin is what a file's positions depend on beside what the listing says of it: its index, or another one beside it,
// and the ETags that the listing lacks. Nil: nothing.
func pin(f plan.File) []byte {
	if !f.Unlisted {
		return f.Digest()
	}
	h := sha256.New()
	write := func(part string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	write(string(f.Digest()))
	write(f.GetEtag())
	for _, e := range f.GetExcluded() {
		write(e.GetEtag())
	}
	return h.Sum(nil)
}

// runs cuts the files into as many runs as there are digests.
func (all pinnedFiles) runs() (out []pinnedFiles) {
	n := min(len(all), digestRuns)
	for i := range n {
		out = append(out, all[i*len(all)/n:(i+1)*len(all)/n])
	}
	return out
}

// digests are what States carry. See docs/internals/indexes.md.
func (all pinnedFiles) digests() string {
	var out []byte
	for _, run := range all.runs() {
		h := sha256.New()
		for _, f := range run {
			h.Write(binary.AppendUvarint(nil, uint64(len(f.GetUri()))))
			h.Write([]byte(f.GetUri()))
			h.Write(pin(f))
		}
		out = append(out, h.Sum(nil)[:runBytes]...)
	}
	return string(out)
}

// differ fails if the files were others before, or had other indexes, and names those; "": nothing is known of that.
func (all pinnedFiles) differ(before string) error {
	digests := all.digests()
	if before == "" || digests == before {
		return nil
	}
	files := all
	for i, run := range all.runs() {
		at := i * runBytes
		if len(digests) == len(before) && digests[at:at+runBytes] != before[at:at+runBytes] {
			files = run
			break
		}
	}
	if len(files) == 0 {
		return errors.New("its files have no indexes, and had some before: they were changed, and their ETags were not")
	}
	var names []string
	for _, f := range files[:min(len(files), namedAtOnce)] {
		names = append(names, f.GetUri())
	}
	of := strings.Join(names, ", ")
	switch {
	case len(files) > len(names):
		of = fmt.Sprintf("one of %s and %d more", of, len(files)-len(names))
	case len(files) > 1:
		of = "one of " + of
	}
	if files[0].Unlisted {
		return fmt.Errorf("%s: since the session's state was taken it was written again, or what tells which of its "+
			"rows are deleted was, and a position would be that of other rows: %w", of, storage.ErrChanged)
	}
	return fmt.Errorf("%s: its index is another one than that by which the session's positions count, which would be "+
		"other rows by this one: the file's bytes were changed and its ETag was not, or one beside it was, or it was "+
		"indexed by another release", of)
}
