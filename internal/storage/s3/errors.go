package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
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
		err = object.Ours(fmt.Errorf("renew the storage profile's credentials: %w", err))
		if !c.renewed {
			return err
		}
		return object.Transient(err)
	case "InvalidAccessKeyId":
		c.credentials.Expire() // it may have been replaced since it was read
	case "ConditionalRequestConflict": // somebody else writes the object at this very moment
		return object.Transient(err)
	case "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "RequestTimeout", "SlowDown":
		return object.Transient(err)
	case minio.AccessDenied:
		return fmt.Errorf("%w; check the storage profile's credentials: %w", object.ErrDenied, err)
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion:
		if c.region == "" && answer.Region != "" {
			return object.Transient(elsewhere(answer)) // minio-go knows it now, and leaves it to us to try again
		}
		return elsewhere(answer)
	}
	switch status := answer.StatusCode; {
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect:
		return elsewhere(answer)
	case status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return object.ErrChanged
	case web.Passes(status):
		return object.Transient(err)
	}
	return err
}

// elsewhere is the error of a bucket that lies in another region.
func elsewhere(answer minio.ErrorResponse) error {
	to := ""
	if answer.Region != "" {
		to = " to " + answer.Region
	}
	return fmt.Errorf("set the storage profile's region%s: %w", to, answer)
}

// classifyNetwork says what only a change of configuration can mend, and takes for transient what cuts a connection.
func classifyNetwork(err error) error {
	switch {
	case object.IsTransient(err), errors.Is(err, errNoCredentials), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, object.ErrEndless):
		return object.ErrEndless // minio-go adds the request
	case errors.Is(err, errLongAnswer):
		return fmt.Errorf("check whether the storage profile's endpoint is an S3 service: %w", err)
	case isCut(err):
		return web.Network(err)
	}
	return err
}

// isCut reports whether a request had no answer, or half of one.
func isCut(err error) bool {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Op != "parse"
	}
	var network net.Error
	var syntax *xml.SyntaxError
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &syntax) && strings.HasPrefix(syntax.Msg, "unexpected EOF")
}
