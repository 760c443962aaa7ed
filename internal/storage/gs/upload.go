package gs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// An upload's parts are objects in a hidden folder beside the file that is to be. Finish composes them, which is atomic
// and takes a condition. The uploads of the service's XML API take none.
const (
	partsFolder = "_penstock_upload_" // the upload's name follows
	// maxSources is how many objects the service composes in one request.
	maxSources = 32
	// removals is how many parts are removed at once.
	removals = 16
	// madeBy is a field of a finished object's metadata: the name of its upload.
	madeBy = "penstock-upload"
)

// uploadName is what Begin returns. Names come back from files, which are not trusted.
var uploadName = regexp.MustCompile(`^[A-Z2-7]{26,64}$`)

// upload is one of a new file.
type upload struct{ bucket, key, name string }

func (u upload) folder() string {
	dir := u.key[:len(u.key)-len(baseName(u.key))]
	return dir + partsFolder + u.name + "/"
}

func (u upload) part(n int) string { return fmt.Sprintf("%s%05d", u.folder(), n) }

func newUpload(uri, name string) (upload, error) {
	bucket, key := split(uri)
	if !uploadName.MatchString(name) {
		return upload{}, fmt.Errorf("%q is no name of an upload; begin the file anew", name)
	}
	return upload{bucket, key, name}, nil
}

// Begin names an upload. Nothing is there before its first part.
func (c *Client) Begin(context.Context, string) (string, error) { return rand.Text(), nil }

// Part uploads a part, with its checksum. Its tag is its generation.
func (c *Client) Part(ctx context.Context, uri, name string, n int, body []byte) (string, error) {
	u, err := newUpload(uri, name)
	if err != nil {
		return "", err
	}
	sum := crc32.Checksum(body, castagnoli())
	return c.insert(ctx, u.bucket, u.part(n), bytes.NewReader(body), int64(len(body)), sum)
}

// Finish composes the parts to the file, if there is no object of that name, and removes them.
func (c *Client) Finish(ctx context.Context, uri, name string, tags []string) error {
	u, err := newUpload(uri, name)
	if err != nil {
		return err
	}
	parts := make([]source, len(tags))
	for i, tag := range tags {
		parts[i] = source{u.part(i + 1), tag}
	}
	if err := c.compose(ctx, u, parts); err != nil {
		return err
	}
	return c.Drop(ctx, uri, name)
}

// compose makes the file of its parts, by way of larger ones if they are many.
func (c *Client) compose(ctx context.Context, u upload, parts []source) error {
	for level := 1; len(parts) > maxSources; level++ {
		var larger []source
		for group := range slices.Chunk(parts, maxSources) {
			name := fmt.Sprintf("%s%d-%05d", u.folder(), level, len(larger)+1)
			made, err := c.composeOne(ctx, u.bucket, name, group, nil, nil)
			if err != nil {
				return c.composed(ctx, u, err)
			}
			larger = append(larger, source{name, made.Generation})
		}
		parts = larger
	}
	_, err := c.composeOne(ctx, u.bucket, u.key, parts, map[string]string{madeBy: u.name},
		url.Values{"ifGenerationMatch": {"0"}}) // there is no object of that name
	return c.composed(ctx, u, err)
}

// composed tells why an upload cannot be finished. It may have been, by a request whose answer was lost.
func (c *Client) composed(ctx context.Context, u upload, err error) error {
	if !errors.Is(err, object.ErrChanged) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there, missing := c.stat(ctx, u.bucket, u.key)
	switch {
	case missing == nil && there.Metadata[madeBy] == u.name:
		return nil
	case missing == nil:
		return fmt.Errorf("%s%s/%s: %w", Scheme, u.bucket, u.key, fs.ErrExist)
	case !errors.Is(missing, fs.ErrNotExist):
		return missing
	case errors.Is(err, object.ErrChanged): // it was removed meanwhile
		return object.Transient(err)
	}
	return err
}

// Drop removes an upload's parts.
func (c *Client) Drop(ctx context.Context, uri, name string) error {
	u, err := newUpload(uri, name)
	if err != nil {
		return err
	}
	removing, within := errgroup.WithContext(ctx)
	removing.SetLimit(removals)
	err = c.List(within, object.Query{Prefix: Scheme + u.bucket + "/" + u.folder()}, func(f *pb.File) error {
		removing.Go(func() error { return c.Remove(within, f.GetUri()) })
		return within.Err()
	})
	if failed := removing.Wait(); failed != nil {
		return fmt.Errorf("remove the parts of an upload: %w", failed)
	}
	return err
}

// source is a part of what is composed.
type source struct {
	Name       string `json:"name"`
	Generation string `json:"generation"`
}

func (c *Client) composeOne(
	ctx context.Context, bucket, key string, parts []source, metadata map[string]string, conditions url.Values,
) (made attributes, err error) {
	body, err := json.Marshal(map[string]any{
		"sourceObjects": parts,
		"destination":   map[string]any{"contentType": "application/octet-stream", "metadata": metadata},
	})
	if err != nil {
		return made, err
	}
	err = c.call(ctx, request{
		method: http.MethodPost,
		path:   objectPath(bucket, key) + "/compose",
		query:  conditions,
		header: http.Header{"Content-Type": {"application/json"}},
		body:   bytes.NewReader(body),
		size:   int64(len(body)),
	}, &made)
	return made, err
}
