package gs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// A service that says how long it wants to be left alone is heard, however it says that it is asked too much.
func TestLater(t *testing.T) {
	for status, text := range map[int]string{
		http.StatusTooManyRequests:    "slow down",
		http.StatusServiceUnavailable: `{"error":{"message":"busy"}}`,
		http.StatusForbidden:          `{"error":{"message":"m","errors":[{"reason":"userRateLimitExceeded"}]}}`,
	} {
		r := readRefusal(status, http.Header{"Retry-After": {"7"}}, strings.NewReader(text))
		if err := new(Client).classify(nil, r); !object.IsTransient(err) || object.After(err) != 7*time.Second {
			t.Errorf("%d: %v, after %s", status, err, object.After(err))
		}
	}
}
