// Package gs lists, reads and writes objects of Google Cloud Storage (gs:// URIs) by its JSON API, for package storage.
// It makes one attempt of everything: storage tries again. A Client may be used by many goroutines at once.
//
// The API is spoken here, over net/http: Google's client library would add 29 MB to the binary, for a handful of calls.
// Tokens come from Google's own library (docs/internals/decisions/gcs-by-hand.md).
package gs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/roots"
)

// Scheme begins every URI of this backend; bucket, "/" and the object's name follow.
const Scheme = "gs://"

// Client is a connection to Google Cloud Storage, or what stands in for it.
type Client struct {
	endpoint  string // without "/" at its end
	payer     string // the project that pays for requests, or ""
	tokens    *tokens
	transport *http.Transport
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
	return &Client{
		endpoint: endpoint.Scheme + "://" + endpoint.Host, payer: p.UserProject, tokens: p.tokens(),
		transport: transport,
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.tokens.close()
}

func split(uri string) (bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(uri, Scheme), "/")
	return bucket, key
}

// described are the fields of an object that are asked for. A generation is a number, which says which content it is.
const described = "name,size,generation,metadata"

// Stat describes one object. It fails with fs.ErrNotExist if there is none.
func (c *Client) Stat(ctx context.Context, uri string) (*pb.File, error) {
	bucket, key := split(uri)
	o, err := c.stat(ctx, bucket, key)
	if err != nil {
		return nil, err
	}
	return o.file(bucket)
}

func (c *Client) stat(ctx context.Context, bucket, key string) (o attributes, err error) {
	err = c.call(ctx, request{path: objectPath(bucket, key), query: url.Values{"fields": {described}}}, &o)
	return o, err
}

// List hands each object that q asks for to yield, in the order of their URIs.
func (c *Client) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	bucket, prefix := split(q.Prefix)
	_, after := split(q.After)
	query := url.Values{
		"prefix": {prefix}, "maxResults": {"1000"},
		"fields": {"nextPageToken,prefixes,items(name,size,generation)"},
	}
	if q.Flat {
		query.Set("delimiter", "/")
	}
	if after != "" {
		query.Set("startOffset", after)
	}
	var marks object.Marks
	for {
		var p page
		err := c.call(ctx, request{path: bucketPath(bucket) + "/o", query: query}, &p)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no bucket %s: %w", bucket, fs.ErrNotExist)
		}
		if err != nil {
			return err
		}
		for range p.Prefixes {
			q.Pass()
		}
		for _, o := range p.Items {
			switch {
			case !strings.HasPrefix(o.Name, prefix):
				return fmt.Errorf("%w: it lists %q, which is not below %q", errNotGCS, o.Name, prefix)
			case o.Name == after: // it begins there
				continue
			case strings.HasSuffix(o.Name, "/"): // it marks a directory
				q.Pass()
				continue
			}
			f, err := o.file(bucket)
			if err != nil {
				return err
			}
			if err := yield(f); err != nil {
				return err
			}
		}
		if p.NextPageToken == "" {
			return nil
		}
		if err := marks.Next(p.NextPageToken); err != nil {
			return err
		}
		query.Set("pageToken", p.NextPageToken)
	}
}

// ReadAt fills buf from offset, if the object still has its generation. Objects that are stored compressed
// (Content-Encoding: gzip) are read as they are stored.
func (c *Client) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	if len(buf) == 0 {
		return nil
	}
	bucket, key := split(f.GetUri())
	last := offset + int64(len(buf)) - 1
	resp, err := c.do(ctx, request{
		path:  objectPath(bucket, key),
		query: url.Values{"alt": {"media"}, "ifGenerationMatch": {f.GetEtag()}},
		header: http.Header{
			"Range":           {fmt.Sprintf("bytes=%d-%d", offset, last)},
			"Accept-Encoding": {"gzip"}, // else the service decompresses, and ignores the range
		},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	generation, given := resp.Header.Get("X-Goog-Generation"), resp.Header.Get("Content-Range")
	switch {
	case generation == "":
		return fmt.Errorf("%w: it does not say which generation it sends", errNotGCS)
	case generation != f.GetEtag():
		return object.ErrChanged
	case given == fmt.Sprintf("bytes %d-%d/%d", offset, last, f.GetSize()):
	case given == "" && offset == 0 && resp.ContentLength == f.GetSize() && f.GetSize() == int64(len(buf)):
	case given == "":
		return errors.New("the service ignores the Range header; check what stands before it")
	default:
		return fmt.Errorf("%w: it sends %q where bytes %d to %d of %d were asked for", errNotGCS, given, offset, last,
			f.GetSize())
	}
	if _, err := io.ReadFull(resp.Body, buf); err != nil {
		return object.Transient(err) // there was an answer: only the network can have failed
	}
	return nil
}

// Put writes an object. Objects are there when all of them is.
func (c *Client) Put(ctx context.Context, uri string, body io.ReaderAt, size int64) error {
	bucket, key := split(uri)
	sum := crc32.New(castagnoli())
	n, err := io.Copy(sum, io.NewSectionReader(body, 0, size))
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("there are %d bytes to write, not %d", n, size)
	}
	_, err = c.insert(ctx, bucket, key, io.NewSectionReader(body, 0, size), size, sum.Sum32())
	return err
}

// Remove removes an object; of a bucket with versions, the newest.
func (c *Client) Remove(ctx context.Context, uri string) error {
	bucket, key := split(uri)
	return c.remove(ctx, bucket, key)
}

func (c *Client) remove(ctx context.Context, bucket, key string) error {
	err := c.call(ctx, request{method: http.MethodDelete, path: objectPath(bucket, key)}, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// attributes are what the service says of an object.
type attributes struct {
	Name       string            `json:"name"`
	Size       int64             `json:"size,string"`
	Generation string            `json:"generation"`
	Metadata   map[string]string `json:"metadata"`
}

// page is one of a listing.
type page struct {
	NextPageToken string       `json:"nextPageToken"`
	Prefixes      []string     `json:"prefixes"`
	Items         []attributes `json:"items"`
}

func (o attributes) file(bucket string) (*pb.File, error) {
	uri := Scheme + bucket + "/" + o.Name
	if o.Generation == "" || o.Size < 0 || o.Name == "" {
		return nil, fmt.Errorf("%w: it gives %s no generation or no size", errNotGCS, uri)
	}
	return &pb.File{Uri: uri, Size: o.Size, Etag: o.Generation}, nil
}
