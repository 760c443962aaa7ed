package az

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what the service checks blocks by, not a secret
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// ofUpload is the metadata that says which upload a blob was.
const ofUpload = "X-Ms-Meta-Penstock_upload"

// Begin names an upload. Its blocks are the blob's, which is not there before they are committed.
func (c *Client) Begin(_ context.Context, uri string) (string, error) {
	_, err := c.locate(uri)
	return rand.Text()[:16], err
}

// Part uploads a block, with its checksum. Those of two uploads have different names. There is no block of no bytes.
func (c *Client) Part(ctx context.Context, uri, upload string, n int, body []byte) (string, error) {
	where, err := c.locate(uri)
	if err != nil || len(body) == 0 {
		return "", err
	}
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", upload, n))
	sum := md5.Sum(body) //nolint:gosec // see the import
	return id, c.send(ctx, request{
		method: http.MethodPut, at: where, query: url.Values{"comp": {"block"}, "blockid": {id}},
		header: map[string]string{"Content-MD5": base64.StdEncoding.EncodeToString(sum[:])},
		body:   bytes.NewReader(body), size: int64(len(body)),
	})
}

// blockList is what a blob is made of.
type blockList struct {
	XMLName xml.Name `xml:"BlockList"`
	IDs     []string `xml:"Uncommitted"`
}

// Finish commits the blocks, if there is no blob of that name.
func (c *Client) Finish(ctx context.Context, uri, upload string, tags []string) error {
	where, err := c.locate(uri)
	if err != nil {
		return err
	}
	var list blockList
	for _, id := range tags {
		if id != "" {
			list.IDs = append(list.IDs, id)
		}
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	err = c.send(ctx, request{
		method: http.MethodPut, at: where, query: url.Values{"comp": {"blocklist"}}, body: bytes.NewReader(body),
		header: map[string]string{"If-None-Match": "*", ofUpload: upload}, size: int64(len(body)),
	})
	r, _ := errors.AsType[refusal](err)
	if !errors.Is(err, object.ErrChanged) && !errors.Is(err, fs.ErrExist) && r.code != "InvalidBlockList" {
		return err
	}
	return c.finished(ctx, where, upload)
}

// finished says why an upload is no more: it became the blob, or went when another did. Committing a blob drops the
// blocks of all others.
func (c *Client) finished(ctx context.Context, where at, upload string) error {
	resp, err := c.do(ctx, request{method: http.MethodHead, at: where})
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.Header.Get(ofUpload) == upload {
		return fmt.Errorf("it is finished already: %w", fs.ErrNotExist)
	}
	return fs.ErrExist
}

// Drop forgets an upload. The service has no word for that: it drops blocks of which no blob is made in a week, or when
// a blob of their name is written.
func (c *Client) Drop(context.Context, string, string) error { return nil }
