package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what S3 checks parts by, not a secret
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"github.com/minio/minio-go/v7"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Begin begins a multipart upload, whose object is not there before it is completed.
func (c *Client) Begin(ctx context.Context, uri string) (string, error) {
	bucket, key := split(uri)
	id, err := c.core.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{})
	return id, c.classify(err)
}

// Part uploads a part, with its checksum.
func (c *Client) Part(ctx context.Context, uri, upload string, n int, body []byte) (string, error) {
	bucket, key := split(uri)
	sum := md5.Sum(body) //nolint:gosec // see the import
	part, err := c.core.PutObjectPart(ctx, bucket, key, upload, n, bytes.NewReader(body), int64(len(body)),
		minio.PutObjectPartOptions{Md5Base64: base64.StdEncoding.EncodeToString(sum[:])})
	return part.ETag, c.classify(err)
}

// Finish completes an upload, if there is no object of that name.
func (c *Client) Finish(ctx context.Context, uri, upload string, tags []string) error {
	bucket, key := split(uri)
	parts := make([]minio.CompletePart, len(tags))
	for i, tag := range tags {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: tag}
	}
	var opts minio.PutObjectOptions
	opts.SetMatchETagExcept("*")
	_, err := c.core.CompleteMultipartUpload(ctx, bucket, key, upload, parts, opts)
	if err = c.classify(err); !errors.Is(err, object.ErrChanged) {
		return err
	}
	// There is an object. If the upload is gone, it became that one.
	if _, err = c.core.ListObjectParts(ctx, bucket, key, upload, 0, 1); err == nil {
		return fmt.Errorf("%s: %w", uri, fs.ErrExist)
	}
	return c.classify(err)
}

// Drop aborts an upload.
func (c *Client) Drop(ctx context.Context, uri, upload string) error {
	bucket, key := split(uri)
	err := c.classify(c.core.AbortMultipartUpload(ctx, bucket, key, upload))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
