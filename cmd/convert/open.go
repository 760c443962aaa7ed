package convert

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// textFile is an open text file, decompressed.
type textFile struct {
	*lines
	inflow *counted
	inner  io.Closer // the decompressor's, or nil
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func openTextFile(ctx context.Context, in *inputs, i int, delimiter, quote byte) (*textFile, error) {
	t := &textFile{inflow: &counted{Reader: in.stream(ctx, i)}}
	if err := t.decompress(in.name(i), delimiter, quote); err != nil {
		t.close()
		return nil, fmt.Errorf("%s: %w", in.name(i), err)
	}
	return t, nil
}

func (t *textFile) decompress(name string, delimiter, quote byte) error {
	var in io.Reader = t.inflow
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".gz"):
		z, err := gzip.NewReader(in)
		switch {
		case err == nil:
			in, t.inner = z, z
		case !errors.Is(err, io.EOF): // an empty file is empty text, as it is uncompressed
			return fmt.Errorf("gzip: %w", err)
		}
	case strings.HasSuffix(lower, ".zst"), strings.HasSuffix(lower, ".zstd"):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		closer := z.IOReadCloser()
		in, t.inner = closer, closer
	}
	// Windows programs mark text by these bytes.
	peeked := bufio.NewReaderSize(in, 1<<16)
	mark, err := peeked.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")), bytes.IndexByte(mark,
		0) >= 0:
		return errors.New(
			"the text is UTF-16, UTF-32 or no text at all; make it UTF-8 first, as by `iconv -f UTF-16 -t UTF-8`")
	case bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")):
		if _, err := peeked.Discard(3); err != nil {
			return err
		}
	}
	t.lines = newLines(peeked, delimiter, quote)
	return nil
}

func (t *textFile) close() {
	if t.inner != nil {
		_ = t.inner.Close() // only read from
	}
}
