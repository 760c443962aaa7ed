package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
)

// Listing bounds what the listing of a dataset may cost: a service may never end one. Zero fields take defaults.
type Listing struct {
	// MaxFiles bounds the files that are found; 2,000,000 by default.
	MaxFiles int64 `yaml:"max_files"`
	// MaxBytes bounds the memory that they take, most of it for their names; 512 MiB by default.
	MaxBytes int64 `yaml:"max_bytes"`
	// Timeout bounds the time, whatever is found; 10 minutes by default.
	Timeout time.Duration `yaml:"timeout"`
}

func (l Listing) withDefaults() (Listing, error) {
	if l.MaxFiles < 0 || l.MaxBytes < 0 || l.Timeout < 0 {
		return l, errors.New("listing: max_files, max_bytes and timeout must not be negative")
	}
	if l.MaxFiles == 0 {
		l.MaxFiles = 2_000_000
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = 512 << 20
	}
	if l.Timeout == 0 {
		l.Timeout = 10 * time.Minute
	}
	return l, nil
}

// fileBytes is about what a listed file takes besides its URI and ETag.
const fileBytes = 128

var errListingTime = errors.New("the listing's time is over")

// spent is what a listing has cost so far.
type spent struct {
	limits Listing
	files  int64 // wanted
	bytes  int64
	others int64 // files that are not wanted
	names  int   // that URIs with braces stand for
}

// within returns a context that ends with the listing's time.
func (s *spent) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.limits.Timeout, errListingTime)
}

// add counts a file that is wanted.
func (s *spent) add(f *pb.File) error {
	s.files++
	s.bytes += fileBytes + int64(len(f.GetUri())+len(f.GetEtag()))
	switch {
	case s.files > s.limits.MaxFiles:
		return s.exceeded(fmt.Sprintf("there are more than %s files", humanize.Comma(s.limits.MaxFiles)), "max_files")
	case s.bytes > s.limits.MaxBytes:
		return s.exceeded(fmt.Sprintf("the first %s files take more than %s of memory",
			humanize.Comma(s.files-1), humanize.IBytes(uint64(s.limits.MaxBytes))), "max_bytes")
	}
	return nil
}

// giveBack counts one that is not wanted after all.
func (s *spent) giveBack(f *pb.File) {
	s.files--
	s.bytes -= fileBytes + int64(len(f.GetUri())+len(f.GetEtag()))
}

// explain says of an error what is to be done if the listing's time is over.
func (s *spent) explain(err error) error {
	if !errors.Is(err, errListingTime) {
		return err
	}
	return s.exceeded(fmt.Sprintf("it was not done after %s, with %s files found and %s others passed over",
		s.limits.Timeout, humanize.Comma(s.files), humanize.Comma(s.others)), "timeout")
}

func (s *spent) exceeded(what, setting string) error {
	return fmt.Errorf("%s; name a directory or a glob of fewer files, such as data/day=2026-01-*/, "+
		"or raise listing.%s in the file that --storage-config names", what, setting)
}
