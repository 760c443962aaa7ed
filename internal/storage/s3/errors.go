package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// classify says in words of ours what went wrong, and marks what may go away by itself.
func (c *Client) classify(err error) error {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return classifyNetwork(err)
	}
	switch answer.Code {
	case minio.NoSuchBucket:
		return fmt.Errorf("no bucket %s: %w", answer.BucketName, fs.ErrNotExist)
	case minio.PreconditionFailed:
		return object.ErrChanged
	case "ExpiredToken", "ExpiredTokenException":
		c.credentials.Expire()
		return object.Transient(err)
	case "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "RequestTimeout", "SlowDown":
		return object.Transient(err)
	case minio.AccessDenied:
		return fmt.Errorf("access denied; check the storage profile's credentials: %w", err)
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion:
		return fmt.Errorf("set the storage profile's region: %w", err)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return object.ErrChanged
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return object.Transient(err)
	}
	return err
}

// classifyNetwork takes all failures to talk to the service for transient, but those that only a change of
// configuration can mend.
func classifyNetwork(err error) error {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case object.IsTransient(err), errors.Is(err, errNoCredentials), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("set the storage profile's ca_file if the service has a private certificate: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("check whether the storage profile's endpoint is http or https: %w", err)
	}
	return object.Transient(err)
}
