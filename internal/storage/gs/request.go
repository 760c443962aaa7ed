package gs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// maxAnswer bounds what is read of an answer that is no object. A page of a listing has 1000 names of 1024 bytes at
// most.
const maxAnswer = 8 << 20

func bucketPath(bucket string) string { return "/storage/v1/b/" + url.PathEscape(bucket) }

func objectPath(bucket, key string) string { return bucketPath(bucket) + "/o/" + url.PathEscape(key) }

// request is one of the JSON API's.
type request struct {
	method string // "" is GET
	path   string // escaped
	query  url.Values
	header http.Header
	body   io.Reader
	size   int64 // of the body
}

// call sends a request, and decodes its answer; nil wants none.
func (c *Client) call(ctx context.Context, r request, answer any) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return object.Transient(err) // there was an answer: only the network can have failed
	case answer == nil:
		return nil
	case len(text) > maxAnswer:
		return fmt.Errorf("%w: its answer has more than 8 MiB, which no page of a listing has", errNotGCS)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%w: %w", errNotGCS, err)
	}
	return nil
}

// do sends a request, and returns an answer that grants it. Redirects are not followed: the API has none, and a token
// would go with them.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	query := r.query
	if c.payer != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("userProject", c.payer)
	}
	target := c.endpoint + r.path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, r.body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = r.size
	for name, values := range r.header {
		req.Header[name] = values
	}
	token, err := c.tokens.get(ctx)
	if err != nil {
		return nil, err
	}
	token.sign(req)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, web.Network(err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.classify(token, readRefusal(resp.StatusCode, resp.Header, resp.Body))
}

// insert writes an object in one request, with its checksum, and returns its generation.
func (c *Client) insert(
	ctx context.Context, bucket, key string, content io.Reader, size int64, sum uint32,
) (generation string, err error) {
	about, err := json.Marshal(map[string]string{
		"name": key, "crc32c": base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)),
	})
	if err != nil {
		return "", err
	}
	boundary := rand.Text()
	var head bytes.Buffer
	fmt.Fprintf(&head, "--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%s\r\n", boundary, about)
	fmt.Fprintf(&head, "--%s\r\nContent-Type: application/octet-stream\r\n\r\n", boundary)
	tail := "\r\n--" + boundary + "--\r\n"
	var made attributes
	err = c.call(ctx, request{
		method: http.MethodPost,
		path:   "/upload" + bucketPath(bucket) + "/o",
		query:  url.Values{"uploadType": {"multipart"}, "fields": {described}},
		header: http.Header{"Content-Type": {"multipart/related; boundary=" + boundary}},
		size:   int64(head.Len()) + size + int64(len(tail)),
		body:   io.MultiReader(&head, content, bytes.NewReader([]byte(tail))),
	}, &made)
	if err == nil && made.Generation == "" {
		err = errors.New("the service does not say which generation it wrote; check the storage profile's endpoint")
	}
	return made.Generation, err
}

// castagnoli is the table of the checksum that the service knows.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
