package gs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
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
	after           time.Duration // how long the service asks to be left alone
}

// readRefusal takes the reason from an answer, which is JSON, or of an object's content a line of text.
func readRefusal(status int, header http.Header, body io.Reader) refusal {
	r := refusal{status: status, after: web.After(header, time.Now())}
	text, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) // of one that is cut the status says enough
	var answer struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		r.message = firstLine(string(text))
		return r
	}
	r.message = firstLine(answer.Error.Message)
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

// classify says in words of ours what was refused, and marks what may go away by itself.
func (c *Client) classify(by *token, r refusal) error {
	says := func(text string) bool { return strings.Contains(strings.ToLower(r.message), text) }
	switch {
	case r.status == http.StatusUnauthorized:
		return c.tokens.refused(by, r)
	case r.status == http.StatusForbidden && slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded"},
		r.reason), web.Passes(r.status):
		return object.Later(r, r.after)
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
	}
	return r
}
