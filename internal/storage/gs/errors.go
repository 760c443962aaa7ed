package gs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

var errNotGCS = errors.New("check whether the storage profile's endpoint is Google Cloud Storage")

const (
	// maxRefusal bounds what is read of an answer that refuses, maxMessage what is shown of it.
	maxRefusal, maxMessage = 64 << 10, 300
)

// refusal is an answer that does not grant a request.
type refusal struct {
	status          int
	reason, message string
}

// readRefusal takes the reason from an answer, which is JSON, or of an object's content a line of text.
func readRefusal(status int, body io.Reader) refusal {
	text, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) // of one that is cut the status says enough
	var answer struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return refusal{status: status, message: firstLine(string(text))}
	}
	r := refusal{status: status, message: firstLine(answer.Error.Message)}
	if all := answer.Error.Errors; len(all) > 0 {
		r.reason = firstLine(all[0].Reason)
	}
	return r
}

// firstLine is what may be shown of a text from outside.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}

func (r refusal) Error() string {
	text := fmt.Sprintf("the service answers %d", r.status)
	if r.message != "" {
		return fmt.Sprintf("%s: %s", text, r.message)
	}
	return text + " " + http.StatusText(r.status)
}

// clientClosedRequest is nginx's, when what it is a proxy of or for hung up.
const clientClosedRequest = 499

// classify says in words of ours what was refused, and marks what may go away by itself.
func (c *Client) classify(by *token, r refusal) error {
	says := func(text string) bool { return strings.Contains(strings.ToLower(r.message), text) }
	switch {
	case r.status == http.StatusUnauthorized:
		return c.tokens.refused(by, r)
	case r.status == http.StatusForbidden && slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded"},
		r.reason):
		return object.Transient(r)
	case says("requester pays"):
		return fmt.Errorf("set the storage profile's user_project to a project that pays for requests: %w", r)
	case r.status == http.StatusForbidden:
		return fmt.Errorf("%w; grant the storage profile's account a role such as Storage Object Viewer: %w",
			object.ErrDenied, r)
	case r.status == http.StatusNotFound && says("bucket does not exist"):
		return fmt.Errorf("no such bucket; correct the URI: %w", fs.ErrNotExist)
	case r.status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, r)
	case r.status == http.StatusPreconditionFailed, r.status == http.StatusRequestedRangeNotSatisfiable:
		return object.ErrChanged
	case r.status < http.StatusBadRequest:
		return fmt.Errorf("%w: it redirects, which the API never does", errNotGCS)
	case passes(r.status):
		return object.Transient(r)
	}
	return r
}

// passes reports whether a refusal of this status may go away by itself.
func passes(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status == clientClosedRequest ||
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// network says what only a change of configuration can mend, and takes the rest for a cut connection.
func network(err error) error {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &certificate), errors.As(err, &authority):
		return fmt.Errorf("set the storage profile's ca_file if the service has a private certificate: %w", err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("check whether the storage profile's endpoint is http or https: %w", err)
	}
	return object.Transient(err)
}
