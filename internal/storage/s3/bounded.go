package s3

import (
	"errors"
	"io"
	"net/http"
)

const (
	// maxErrorAnswer bounds the body of an answer that refuses: what is after it is left out.
	maxErrorAnswer = 1 << 20
	// maxAnswer bounds other bodies but those of objects. A page of a listing has 1000 names of 1024 bytes at most.
	maxAnswer = 8 << 20
)

var errLongAnswer = errors.New("its answer has more than 8 MiB, which no page of a listing has")

// bounded is a transport whose answers end, whatever the service sends. Objects are not bounded: who asks for a range
// reads no more.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch ok := resp.StatusCode < http.StatusMultipleChoices; {
	case !ok:
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxErrorAnswer, end: io.EOF}
	case req.Header.Get("Range") == "":
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer, end: errLongAnswer}
	}
	return resp, nil
}

// boundedBody ends a body that goes on for too long with an error.
type boundedBody struct {
	io.ReadCloser
	left int64
	end  error
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 && len(p) > 0 {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
