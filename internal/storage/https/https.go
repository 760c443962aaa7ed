// Package https reads files of web servers by ranges (https:// URIs), for package storage. HTTP lists nothing, so that
// files are named one by one, or by braces. It makes one attempt of everything: storage tries again. A Client may be
// used by many goroutines at once.
package https

import (
	"context"
	"errors"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// Client reads from the servers that a profile lists.
type Client struct {
	web   *web.Client
	hosts bool // there are any
	token web.Token
}

// Close closes idle connections.
func (c *Client) Close() { c.web.Close() }

// Stat asks for the first byte of a file: the answer tells whether the server knows ranges, too.
func (c *Client) Stat(ctx context.Context, uri string) (*pb.File, error) {
	if strings.HasSuffix(uri, "/") {
		return nil, object.ErrNoFolders
	}
	r, err := c.request(uri)
	if err != nil {
		return nil, err
	}
	size, header, err := c.web.Size(ctx, r)
	if err != nil {
		return nil, c.token.Explain(err)
	}
	etag, err := web.Validator(header)
	if size == 0 && err != nil {
		etag, err = "empty", nil // there is nothing to change in it
	}
	if err != nil {
		return nil, err
	}
	return &pb.File{Uri: uri, Size: size, Etag: etag}, nil
}

// List finds nothing: HTTP has no listing.
func (c *Client) List(ctx context.Context, _ object.Query, _ func(*pb.File) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return object.ErrNoFolders
}

// ReadAt fills buf from offset, if the file still has its ETag.
func (c *Client) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	r, err := c.request(f.GetUri())
	if err != nil {
		return err
	}
	r.Header = web.Conditions(f.GetEtag())
	return c.token.Explain(c.web.Read(ctx, r, buf, offset, f.GetSize(), web.Same(f.GetEtag())))
}

// request asks for a file, with the profile's token.
func (c *Client) request(uri string) (web.Request, error) {
	if !c.hosts {
		return web.Request{}, errors.New("the storage profile lists no hosts, and others are not read; write one " +
			"with type: https and hosts: [data.example.org], and name it (dataset.storage, --storage)")
	}
	canonical, err := canonical(uri) // a file's URI may come from a manifest
	if err != nil {
		return web.Request{}, err
	}
	u, err := urlOf(canonical)
	if err != nil {
		return web.Request{}, err
	}
	secret, err := c.token.Headers()
	return web.Request{URL: u, Secret: secret}, err
}
