// Package s3 lists and reads objects of S3 and services like it (s3:// URIs) with minio-go, for package storage.
// It makes one attempt of everything: storage tries again. A Client may be used by many goroutines at once.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Scheme begins every URI of this backend; bucket, "/" and key follow.
const Scheme = "s3://"

// Client is a connection to one S3 service.
type Client struct {
	core        minio.Core
	credentials *credentials.Credentials
	transport   *http.Transport
}

// New returns a client. It connects to nothing yet.
func New(p Profile) (*Client, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	endpoint, err := p.endpoint()
	if err != nil {
		return nil, err
	}
	transport, err := p.transport()
	if err != nil {
		return nil, err
	}
	creds, err := p.credentials()
	if err != nil {
		return nil, err
	}
	custom := endpoint.Host != ""
	host := endpoint.Host
	if !custom {
		host = "s3.amazonaws.com"
	}
	client, err := minio.New(host, &minio.Options{
		Creds:        creds,
		Secure:       endpoint.Scheme == "https",
		Transport:    transport,
		Region:       p.region(custom),
		BucketLookup: p.lookup(),
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("S3 client: %w", err)
	}
	return &Client{minio.Core{Client: client}, creds, transport}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func split(uri string) (bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(uri, Scheme), "/")
	return bucket, key
}

// Stat describes one object. It fails with fs.ErrNotExist if there is none.
func (c *Client) Stat(ctx context.Context, uri string) (*pb.File, error) {
	bucket, key := split(uri)
	info, err := c.core.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, c.classify(err)
	}
	return describe(bucket, info)
}

// List hands each object that q asks for to yield, in the order of their URIs.
func (c *Client) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	bucket, prefix := split(q.Prefix)
	_, after := split(q.After)
	noOwner := false
	opts := minio.ListObjectsOptions{Prefix: prefix, Recursive: !q.Flat, StartAfter: after, FetchOwner: &noOwner}
	for info := range c.core.ListObjectsIter(ctx, bucket, opts) {
		if info.Err != nil {
			return c.classify(info.Err)
		}
		if strings.HasSuffix(info.Key, "/") { // a directory, or an object that marks one
			q.Pass()
			continue
		}
		f, err := describe(bucket, info)
		if err != nil {
			return err
		}
		if err := yield(f); err != nil {
			return err
		}
	}
	// Once the context is done minio-go ends a listing early without an error.
	return context.Cause(ctx)
}

// ReadAt fills buf from offset, if the object still has its ETag.
func (c *Client) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	if len(buf) == 0 {
		return nil
	}
	bucket, key := split(f.Uri)
	var opts minio.GetObjectOptions
	if err := opts.SetRange(offset, offset+int64(len(buf))-1); err != nil {
		return err
	}
	if err := opts.SetMatchETag(f.Etag); err != nil {
		return err
	}
	body, info, header, err := c.core.GetObject(ctx, bucket, key, opts)
	if err != nil {
		return c.classify(err)
	}
	defer body.Close()
	if info.ETag != f.Etag {
		return object.ErrChanged
	}
	if header.Get("Content-Range") == "" && (offset != 0 || info.Size != int64(len(buf))) {
		return errors.New("the service ignores the Range header")
	}
	if _, err := io.ReadFull(body, buf); err != nil {
		return c.classify(err)
	}
	return nil
}

func describe(bucket string, info minio.ObjectInfo) (*pb.File, error) {
	uri := Scheme + bucket + "/" + info.Key
	if info.ETag == "" {
		return nil, fmt.Errorf("%s: the service gives no ETag, without which changes could not be noticed", uri)
	}
	return &pb.File{Uri: uri, Size: info.Size, Etag: info.ETag}, nil
}
