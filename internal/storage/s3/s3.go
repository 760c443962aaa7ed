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
	"github.com/penstock-ml/penstock/internal/storage/roots"
)

// Scheme begins every URI of this backend; bucket, "/" and key follow.
const Scheme = "s3://"

// Client is a connection to one S3 service.
type Client struct {
	core        minio.Core
	credentials *credentials.Credentials
	renewed     bool   // credentials renew themselves
	region      string // configured; "" if minio-go finds it out
	payer       string
	transport   *http.Transport
}

// New returns a client. It connects to nothing yet.
func New(p *Profile) (*Client, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	endpoint, err := p.endpoint()
	if err != nil {
		return nil, err
	}
	transport, err := roots.Transport(p.CAFile)
	if err != nil {
		return nil, err
	}
	creds, renewed, err := p.credentials()
	if err != nil {
		return nil, err
	}
	custom := endpoint.Host != ""
	host := endpoint.Host
	if !custom {
		host = "s3.amazonaws.com"
	}
	region := p.region(custom)
	client, err := minio.New(host, &minio.Options{
		Creds:        creds,
		Secure:       endpoint.Scheme == "https",
		Transport:    bounded{pages{transport}},
		Region:       region,
		BucketLookup: p.lookup(),
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("S3 client: %w", err)
	}
	return &Client{
		core: minio.Core{Client: client}, credentials: creds, renewed: renewed, region: region, payer: p.RequestPayer,
		transport: transport,
	}, nil
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
	var opts minio.StatObjectOptions
	c.pay(&opts)
	info, err := c.core.StatObject(ctx, bucket, key, opts)
	if isBare(err) {
		var body io.ReadCloser
		if body, info, _, err = c.core.GetObject(ctx, bucket, key, opts); err == nil {
			defer body.Close()
		}
	}
	if err != nil {
		return nil, c.classify(err)
	}
	return describe(bucket, info)
}

// isBare reports whether a HEAD was answered by 400, without a body that says why (the token has expired, the region
// is another, the endpoint is https): a GET has one.
func isBare(err error) bool {
	var answer minio.ErrorResponse
	// minio-go takes the status for want of a code
	return errors.As(err, &answer) && strings.HasPrefix(answer.Code, "400")
}

// pay has this request paid by who reads, and not by the bucket's owner.
func (c *Client) pay(opts interface{ Set(key, value string) }) {
	if c.payer != "" {
		opts.Set("x-amz-request-payer", c.payer)
	}
}

// Put writes an object. Objects are there when all of them is.
func (c *Client) Put(ctx context.Context, uri string, body io.ReaderAt, size int64) error {
	bucket, key := split(uri)
	content := io.NewSectionReader(body, 0, size)
	_, err := c.core.Client.PutObject(ctx, bucket, key, content, size, minio.PutObjectOptions{})
	return c.classify(err)
}

// Remove removes an object; of a bucket with versions, the newest. S3 tells nobody that there was none.
func (c *Client) Remove(ctx context.Context, uri string) error {
	bucket, key := split(uri)
	return c.classify(c.core.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{}))
}

// List hands each object that q asks for to yield, in the order of their URIs.
func (c *Client) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	bucket, prefix := split(q.Prefix)
	_, after := split(q.After)
	noOwner := false
	opts := minio.ListObjectsOptions{Prefix: prefix, Recursive: !q.Flat, StartAfter: after, FetchOwner: &noOwner}
	c.pay(&opts)
	for info := range c.core.ListObjectsIter(withMarks(ctx), bucket, opts) {
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
	c.pay(&opts)
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
		return object.Transient(err) // there was an answer: only the network can have failed
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
