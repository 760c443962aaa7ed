package gs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// witness stands between Google's library and the services that give tokens. The library puts what these answer into
// its errors, where it cannot be told a fault that passes from one that stays, nor a secret from a reason.
type witness struct{ next *http.Transport }

func newWitness() witness {
	return witness{&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
	}}
}

var errNoToken = errors.New("no token for the storage profile's credentials")

// fetch is that of one token.
type fetch struct {
	witness
	passing atomic.Bool // the newest request failed in a way that may pass
}

func (f *fetch) client() *http.Client {
	return &http.Client{
		Transport: f, Timeout: fetchTimeout / 2,
		// A token would go with them.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper.
func (f *fetch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	f.passing.Store(err != nil || web.Passes(resp.StatusCode))
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(reason(resp.Body)))
	}
	return resp, err
}

// reason is what may be shown of an answer that refuses a token: the fields that the standard has for it.
func reason(body io.Reader) []byte {
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	text, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) // of one that is cut nothing is shown
	_ = json.Unmarshal(text, &said)                         // nor of what is no JSON
	said.Error, said.Description = firstLine(said.Error), firstLine(said.Description)
	text, _ = json.Marshal(said) // two texts
	return text
}

// classify says why there is no token.
func (f *fetch) classify(why error) error {
	if why == nil {
		return nil
	}
	err := object.Ours(fmt.Errorf("%w; see whether its account and key are there, and enabled: %s", errNoToken,
		firstLine(strings.ReplaceAll(why.Error(), "\n", " "))))
	var network net.Error // of a machine's own service, which the library asks by itself
	var answer *metadata.Error
	if f.passing.Load() || errors.As(why, &network) || errors.As(why, &answer) && web.Passes(answer.Code) {
		return object.Transient(err)
	}
	return err
}
