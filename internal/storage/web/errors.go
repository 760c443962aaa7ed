package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// StatusError is an answer that refuses.
type StatusError struct {
	Status int
	Header http.Header
	host   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers %d %s", e.host, e.Status, http.StatusText(e.Status))
}

// refusal is the error of an answer that refuses.
func refusal(at *url.URL, resp *http.Response) error {
	err := error(&StatusError{resp.StatusCode, resp.Header, at.Host})
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound, status == http.StatusGone:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w; check the storage profile's token: %w", object.ErrDenied, err)
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: %w", object.ErrChanged, err)
	case Passes(status):
		return object.Later(err, After(resp.Header, time.Now()))
	}
	return err
}

// clientClosedRequest is nginx's, when what it is a proxy of or for hung up.
const clientClosedRequest = 499

// Passes reports whether a refusal of this status may go away by itself.
func Passes(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status == clientClosedRequest ||
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// reset is how many seconds a quota is still used up, as RateLimit has it.
var reset = regexp.MustCompile(`;\s*t=(\d{1,9})\b`)

// After is how long a server asks to be left alone: 0 if it does not say.
func After(h http.Header, now time.Time) time.Duration {
	given := h.Get("Retry-After")
	if at, err := http.ParseTime(given); err == nil {
		return max(0, at.Sub(now))
	}
	if m := reset.FindStringSubmatch(h.Get("RateLimit")); given == "" && m != nil {
		given = m[1]
	}
	seconds, err := strconv.ParseUint(given, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Network says of a request without an answer what only a change of configuration can mend, and takes the rest for a
// cut connection.
func Network(err error) error {
	var refused refusedError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("set the storage profile's ca_file if the server has a private certificate: %w", err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("check whether the server speaks http or https: %w", err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		err = fmt.Errorf("check the host's name, and that this machine can look it up: %w", err)
	}
	return object.Transient(err)
}
