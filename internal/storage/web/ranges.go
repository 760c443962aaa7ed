package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// contentRange is what answers to a range say: where it lies, or "*" if there is none such, and the file's size.
var contentRange = regexp.MustCompile(`^bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})$`)

// Size asks for a file's first byte, and returns its size and the answer's headers.
func (c *Client) Size(ctx context.Context, r Request) (int64, http.Header, error) {
	resp, err := c.Do(ctx, r.ranging(0, 1))
	var refused *StatusError
	if errors.As(err, &refused) && refused.Status == http.StatusRequestedRangeNotSatisfiable {
		if m := contentRange.FindStringSubmatch(refused.Header.Get("Content-Range")); m != nil && m[3] == "0" {
			return 0, refused.Header, nil // an empty file has no first byte
		}
		return 0, nil, fmt.Errorf("%w; it does not give the file's first byte; read it from another server", refused)
	}
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var first [1]byte
	size, err := checkRange(resp, 0, 1, unknown)
	if err != nil {
		return 0, nil, err
	}
	return size, resp.Header, readBody(resp, first[:min(size, 1)])
}

// Read fills buf from offset with bytes of a file of some size, unless check refuses the answer.
func (c *Client) Read(
	ctx context.Context, r Request, buf []byte, offset, size int64, check func(*http.Response) error,
) error {
	if len(buf) == 0 {
		return nil
	}
	resp, err := c.Do(ctx, r.ranging(offset, len(buf)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := check(resp); err != nil {
		return err
	}
	if _, err := checkRange(resp, offset, int64(len(buf)), size); err != nil {
		return err
	}
	return readBody(resp, buf)
}

// ranging asks for n bytes from offset.
func (r Request) ranging(offset int64, n int) Request {
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+int64(n)-1))
	r.Header = header
	return r
}

// unknown is the size of a file that was not asked for before.
const unknown = -1

// checkRange refuses an answer that is not the range that was asked for of a file of that size, and returns the size
// that it says. Of a file that is as short as the range, all of it will do.
func checkRange(resp *http.Response, offset, n, was int64) (size int64, err error) {
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return 0, fmt.Errorf("the server encodes the file (Content-Encoding: %.20q) although it is asked not to; "+
			"have it send the file as it is", coding)
	}
	given := resp.Header.Get("Content-Range")
	if resp.StatusCode != http.StatusPartialContent || given == "" {
		if whole := resp.ContentLength; resp.StatusCode == http.StatusOK && offset == 0 && whole >= 0 && whole <= n {
			return whole, checkSize(whole, was)
		}
		return 0, errors.New("the server ignores the Range header, and files are read by ranges; copy the files to " +
			"a server that knows it, to a disk or to S3")
	}
	m := contentRange.FindStringSubmatch(given)
	if m == nil || m[1] == "" {
		return 0, fmt.Errorf("the server's Content-Range, %.60q, is none; read the file from another server", given)
	}
	size, err = strconv.ParseInt(m[3], 10, 64)
	if err == nil {
		err = checkSize(size, was)
	}
	if err != nil {
		return 0, err
	}
	if want := fmt.Sprintf("%d-%d", offset, offset+n-1); m[1]+"-"+m[2] != want || size < offset+n {
		return 0, fmt.Errorf("the server was asked for bytes %s, and answers %.60q; read the file from another server",
			want, given)
	}
	if resp.ContentLength >= 0 && resp.ContentLength != n {
		return 0, fmt.Errorf("the server says that %d bytes are %d (Content-Length); read the file from another server",
			n, resp.ContentLength)
	}
	return size, nil
}

func checkSize(size, was int64) error {
	if was != unknown && size != was {
		return fmt.Errorf("%w: it has %d bytes by now, and had %d", object.ErrChanged, size, was)
	}
	return nil
}

// readBody fills buf with a body that has no more than that.
func readBody(resp *http.Response, buf []byte) error {
	if _, err := io.ReadFull(resp.Body, buf); err != nil {
		return object.Transient(fmt.Errorf("the answer was cut: %w", err))
	}
	var more [1]byte
	if n, _ := resp.Body.Read(more[:]); n > 0 { // at its end the connection can be kept
		return errors.New("the server sends more bytes than it was asked for; read the file from another server")
	}
	return nil
}
