package az

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// A service that says how long it wants to be left alone is heard.
func TestLater(t *testing.T) {
	c, err := New(&Profile{Account: "account1", Credentials: Anonymous})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := readRefusal(&http.Response{
		StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"7"}},
		Body: io.NopCloser(strings.NewReader("<Error><Code>ServerBusy</Code></Error>")),
	})
	if err := c.classify(at{}, r, nil); !object.IsTransient(err) || object.After(err) != 7*time.Second {
		t.Errorf("%v, after %s", err, object.After(err))
	}
}
