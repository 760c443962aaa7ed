// Package az lists, reads and writes blobs of Azure Storage (az:// and abfss:// URIs) by the Blob service's REST API,
// for package storage. Microsoft's azblob is not used: it brings a second Arrow into the binary; tokens come from its
// azidentity. It makes one attempt of everything: storage tries again. A Client may be used by many goroutines at once.
package az

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/roots"
)

// Client is a connection to Azure's Blob service, or to what stands for it.
type Client struct {
	profile   *Profile
	account   string // "" if each URI names its own
	signer    signer
	transport *http.Transport
	http      *http.Client
}

// New returns a client. It connects to nothing yet.
func New(p *Profile) (*Client, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	transport, err := roots.Transport(p.CAFile)
	if err != nil {
		return nil, err
	}
	c := &Client{profile: p, account: p.account(), transport: transport, http: &http.Client{
		Transport: transport,
		// The service never redirects: credentials go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.signer, err = p.signer(c.http); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes idle connections, and ends the fetching of a token.
func (c *Client) Close() {
	if t, ok := c.signer.(*tokens); ok {
		t.close()
	}
	c.transport.CloseIdleConnections()
}

// Stat describes one blob. It fails with fs.ErrNotExist if there is none, or a directory.
func (c *Client) Stat(ctx context.Context, uri string) (*pb.File, error) {
	at, err := c.locate(uri)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(ctx, request{method: http.MethodHead, at: at})
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if isFolder(resp.Header.Get("X-Ms-Resource-Type"), resp.Header.Get("X-Ms-Meta-Hdi_isfolder")) {
		return nil, fmt.Errorf("it is a directory: %w", fs.ErrNotExist)
	}
	return describe(uri, resp.ContentLength, resp.Header.Get("ETag"))
}

// isFolder reports whether an entry only marks a directory: of an account with a hierarchical namespace, or, by its
// metadata, of Hadoop's.
func isFolder(resourceType, hadoop string) bool {
	return resourceType == "directory" || strings.EqualFold(hadoop, "true")
}

// describe has ETags without quotes: listings have none, headers do.
func describe(uri string, size int64, etag string) (*pb.File, error) {
	etag = strings.TrimSuffix(strings.TrimPrefix(etag, `"`), `"`)
	switch {
	case etag == "" || strings.HasPrefix(etag, "W/"):
		return nil, fmt.Errorf("%s: the service gives no strong ETag, without which changes could not be noticed", uri)
	case size < 0:
		return nil, fmt.Errorf("%s: the service gives no size", uri)
	}
	return &pb.File{Uri: uri, Size: size, Etag: etag}, nil
}

// ReadAt fills buf from offset, if the blob still has its ETag.
func (c *Client) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	if len(buf) == 0 {
		return nil
	}
	at, err := c.locate(f.GetUri())
	if err != nil {
		return err
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, at: at, header: map[string]string{
		"Range":    fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(buf))-1),
		"If-Match": `"` + f.GetEtag() + `"`,
	}})
	if errors.Is(err, object.ErrChanged) { // by HTTP's rules what is gone does not match, either
		if _, gone := c.Stat(ctx, f.GetUri()); errors.Is(gone, fs.ErrNotExist) {
			return gone
		}
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch got := strings.Trim(resp.Header.Get("ETag"), `"`); got {
	case f.GetEtag():
	case "":
		return errors.New("the service gives no ETag; check whether the storage profile's endpoint is a Blob service")
	default:
		return object.ErrChanged
	}
	if err := answers(resp, offset, len(buf)); err != nil {
		return err
	}
	if _, err := io.ReadFull(resp.Body, buf); err != nil {
		return c.network(err) // there was an answer: only the network can have failed
	}
	return nil
}

// answers checks that an answer has the bytes that were asked for. The whole blob may come without a range.
func answers(resp *http.Response, offset int64, n int) error {
	got := resp.Header.Get("Content-Range")
	if resp.StatusCode == http.StatusOK && offset == 0 && resp.ContentLength == int64(n) {
		return nil
	}
	if resp.StatusCode != http.StatusPartialContent {
		return errors.New("the service ignores the Range header; check the storage profile's endpoint")
	}
	want := fmt.Sprintf("bytes %d-%d/", offset, offset+int64(n)-1)
	if strings.HasPrefix(got, want) {
		return nil
	}
	if _, whole, ok := strings.Cut(got, "/"); ok {
		if size, err := strconv.ParseInt(whole, 10, 64); err == nil && size < offset+int64(n) {
			return object.ErrChanged // it is shorter than it was
		}
	}
	return errors.New("the service sends another range than was asked for; check the storage profile's endpoint")
}

// Put writes a blob. It is there when all of it is.
func (c *Client) Put(ctx context.Context, uri string, body io.ReaderAt, size int64) error {
	at, err := c.locate(uri)
	if err != nil {
		return err
	}
	return c.send(ctx, request{
		method: http.MethodPut, at: at, body: io.NewSectionReader(body, 0, size), size: size,
		header: map[string]string{"x-ms-blob-type": "BlockBlob"},
	})
}

// Remove removes a blob.
func (c *Client) Remove(ctx context.Context, uri string) error {
	at, err := c.locate(uri)
	if err != nil {
		return err
	}
	err = c.send(ctx, request{method: http.MethodDelete, at: at})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
