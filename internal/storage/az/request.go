package az

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/web"
)

const (
	// version of the REST API.
	version = "2021-12-02"
	// maxRefusal bounds the body of an answer that refuses: what is after it is left out.
	maxRefusal = 64 << 10
)

// request is one of the Blob service's.
type request struct {
	method string
	at     at
	query  url.Values
	header map[string]string
	body   io.Reader
	size   int64
}

// send is do for requests whose answers have nothing to read.
func (c *Client) send(ctx context.Context, r request) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do sends a request, and returns an answer that grants it.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "", r.body)
	if err != nil {
		return nil, err
	}
	req.URL = r.at.url(r.query)
	req.Host = req.URL.Host
	req.ContentLength = r.size
	if r.size == 0 {
		req.Body = nil
	}
	req.Header.Set("X-Ms-Version", version)
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	if err := c.signer.sign(ctx, r.at.account, req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.network(err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.classify(r.at, readRefusal(resp), req)
}

// refusal is an answer that does not grant a request.
type refusal struct {
	status        int
	code, message string
	after         time.Duration // how long the service asks to be left alone
}

// readRefusal takes from an answer what may be shown: its details repeat what was signed.
func readRefusal(resp *http.Response) refusal {
	var body struct {
		Code    string
		Message string
	}
	// What is not XML says nothing: the status does.
	_ = xml.NewDecoder(io.LimitReader(resp.Body, maxRefusal)).Decode(&body)
	r := refusal{
		status: resp.StatusCode, code: resp.Header.Get("X-Ms-Error-Code"), message: firstLine(body.Message),
		after: web.After(resp.Header, time.Now()),
	}
	if r.code == "" {
		r.code = firstLine(body.Code)
	}
	return r
}

func (r refusal) Error() string {
	text := fmt.Sprintf("the service answers %d", r.status)
	if r.code != "" {
		text += " " + r.code
	}
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}
