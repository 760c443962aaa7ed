// Package s3test writes what tests read from S3, with minio-go; package storagetest uses it. A Writer may be used
// by many goroutines at once.
package s3test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Writer writes to one S3 service.
type Writer struct {
	client    *minio.Client
	transport *http.Transport
}

// NewWriter returns a writer to the service at address ("host:port", without TLS).
func NewWriter(address, accessKey, secretKey string) (*Writer, error) {
	return NewTLSWriter(address, nil, accessKey, secretKey)
}

// NewTLSWriter returns a writer to the service at address, whose certificate is checked as cfg says; nil is no TLS.
func NewTLSWriter(address string, cfg *tls.Config, accessKey, secretKey string) (*Writer, error) {
	transport := &http.Transport{TLSClientConfig: cfg}
	client, err := minio.New(address, &minio.Options{
		Secure:    cfg != nil,
		Creds:     credentials.NewStaticV4(accessKey, secretKey, ""),
		Region:    "us-east-1",
		Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	return &Writer{client, transport}, nil
}

// Close closes idle connections.
func (w *Writer) Close() { w.transport.CloseIdleConnections() }

// MakeBucket makes a bucket.
func (w *Writer) MakeBucket(ctx context.Context, name string) error {
	return w.client.MakeBucket(ctx, name, minio.MakeBucketOptions{})
}

// Put writes an object, or replaces it.
func (w *Writer) Put(ctx context.Context, bucket, key string, content []byte) error {
	_, err := w.client.PutObject(ctx, bucket, key, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{})
	return err
}

// PutFile writes a local file as an object.
func (w *Writer) PutFile(ctx context.Context, bucket, key, path string) error {
	_, err := w.client.FPutObject(ctx, bucket, key, path, minio.PutObjectOptions{})
	return err
}

// Remove deletes an object.
func (w *Writer) Remove(ctx context.Context, bucket, key string) error {
	return w.client.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{})
}
