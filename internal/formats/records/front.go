package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

const (
	// maxFront bounds what is decompressed of a file's first bytes.
	maxFront = 1 << 20
	// firstFront is what memory for it begins with.
	firstFront = 64 << 10
	// longFrontBytes is how much of a file is read at once for a longer front.
	longFrontBytes = 4 << 20
	// MaxHeader bounds what stands in front of the first record.
	MaxHeader = 64 << 20
)

// FrontError says that Open takes a longer front: up to the end of the first record, or that of a header.
type FrontError struct {
	At     int64 // where the first record begins
	Record int64 // what it has at least
	Ahead  int64 // what is to be seen of what follows it
}

func (e *FrontError) Error() string {
	return fmt.Sprintf("the file's front has %d bytes, more than there are: the file is cut off", e.At+e.Record)
}

// needs is how many bytes the longer front takes at least, and the most that is read for it. It fails if a record or
// what stands in front of it is too long.
func (e *FrontError) needs(limits Limits) (least, most int64, err error) {
	if e.At > MaxHeader {
		return 0, 0, fmt.Errorf("no record begins in its first %d bytes: write the file again, without what stands in "+
			"front of them", MaxHeader)
	}
	least, most = e.At+e.Record+e.Ahead, e.At+limits.Record+lookAhead
	if e.Record > limits.Record || least > most {
		return 0, 0, fmt.Errorf("byte %d: %w", e.At, tooLong(limits.Record))
	}
	return least, most, nil
}

// tooLong is about a record.
func tooLong(limit int64) error {
	return fmt.Errorf("a record has more than %d bytes: if it is to be trusted, raise dataset.format.%s", limit,
		optionRecord)
}

// frontOf decompresses a file's first bytes.
func frontOf(ctx context.Context, in *format.Input) (*format.Front, error) {
	return in.Front(ctx, func(head []byte, whole bool) (*format.Front, error) { return unpack(head, whole, in.Ask) })
}

// front is that of a file that may be of the format. Its first bytes may be those of a codec by chance: a file of
// 35,615 records may begin with their number. Then the format tells.
func (f Format) front(ctx context.Context, in *format.Input) (Codec, *format.Front, error) {
	head, err := in.Head(ctx)
	if err != nil {
		return Plain, nil, err
	}
	codec := codecOf(head)
	if codec != Plain && f.Kind.Claims(head) {
		return Plain, &format.Front{Data: head, Whole: int64(len(head)) == in.File.GetSize()}, nil
	}
	front, err := frontOf(ctx, in)
	return codec, front, err
}

// Compression is the name of what compresses a file, "" if nothing does, and why it cannot be decompressed, if it
// cannot.
func Compression(ctx context.Context, in *format.Input) (name string, damaged, err error) {
	front, err := frontOf(ctx, in)
	if err != nil {
		return "", nil, err
	}
	head, err := in.Head(ctx)
	if codec := codecOf(head); codec != Plain {
		return codec.String(), front.Err, err
	}
	return "", nil, err
}

func unpack(head []byte, whole bool, take func(bytes int64) error) (*format.Front, error) {
	codec := codecOf(head)
	if codec == Plain {
		return &format.Front{Data: head, Whole: whole}, nil
	}
	var refused error
	asked := func(n int64) error {
		refused = take(n)
		return refused
	}
	u := NewUnpacked(codec, bytes.NewReader(head), 0, Limits{}, asked)
	defer u.Close()
	f := &growingFront{in: u, take: asked}
	ended, err := f.upTo(maxFront)
	switch {
	case refused != nil:
		return nil, refused
	case err != nil && (whole || len(f.data) == 0 && !errors.Is(err, io.ErrUnexpectedEOF)):
		return &format.Front{Err: err}, nil
	}
	return &format.Front{Data: f.data, Whole: whole && ended}, nil
}

// open opens a file, with as long a front as its first record takes.
func (f Format) open(ctx context.Context, in *format.Input, codec Codec, front *Front) (Opened, error) {
	opened, err := f.Open(front)
	more, ok := errors.AsType[*FrontError](err)
	if !ok || front.Whole {
		return opened, err
	}
	head, err := in.Head(ctx)
	if err != nil {
		return nil, err
	}
	rest := in.File.GetSize() - int64(len(head))
	if err := in.Ask(min(longFrontBytes, rest)); err != nil {
		return nil, err
	}
	from := in.ReaderFrom(ctx, int64(len(head)), longFrontBytes)
	u := NewUnpacked(codec, io.MultiReader(bytes.NewReader(head), from), 0, front.Limits, in.Ask)
	defer u.Close()
	long := &growingFront{in: u, take: in.Ask, first: 4 * len(front.Data)}
	for ok && !front.Whole {
		least, most, err := more.needs(front.Limits)
		if err != nil {
			return nil, err
		}
		// What is read at least doubles, so that headers of many records do not each take a look at all of it.
		n := min(max(least, 2*int64(len(front.Data))), most)
		if n <= int64(len(front.Data)) {
			return nil, more
		}
		ended, err := long.upTo(n)
		if err != nil {
			return nil, fmt.Errorf("its front of %d bytes: %w", n, err)
		}
		front.Data, front.Whole = long.data, ended || codec == Plain && int64(len(long.data)) == in.File.GetSize()
		opened, err = f.Open(front)
		if more, ok = errors.AsType[*FrontError](err); !ok {
			return opened, err
		}
	}
	return nil, more
}

// growingFront is what a reader gives, in memory that is taken as there is something to put into it: what a file claims
// to have is no reason to take any.
type growingFront struct {
	in    io.Reader
	take  func(bytes int64) error
	first int // what memory begins with
	data  []byte
}

// upTo reads until there are n bytes, or the reader ends.
func (f *growingFront) upTo(n int64) (ended bool, err error) {
	for int64(len(f.data)) < n {
		if len(f.data) == cap(f.data) {
			if err := f.grow(n); err != nil {
				return false, err
			}
		}
		m, err := f.in.Read(f.data[len(f.data):min(int64(cap(f.data)), n)])
		f.data = f.data[:len(f.data)+m]
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// grow makes memory four times as much, or as is wanted.
func (f *growingFront) grow(n int64) error {
	n = min(n, max(firstFront, int64(f.first), 4*int64(cap(f.data))))
	if err := f.take(n - int64(cap(f.data))); err != nil {
		return err
	}
	grown := make([]byte, len(f.data), n)
	copy(grown, f.data)
	f.data = grown
	return nil
}
