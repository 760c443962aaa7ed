package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// statusTimeout is 419, by which catalogues say that a token's time is over.
const statusTimeout = 419

// get asks for what lies at a path, which is encoded, and decodes the answer. A token that was fetched and is refused
// is replaced once.
func (c *Catalog) get(ctx context.Context, path, what string, into any) error {
	for replaced := false; ; replaced = true {
		token, err := c.authorization(ctx)
		if err != nil {
			return err
		}
		err = c.once(ctx, path, what, token, into)
		var refused *refusedError
		if replaced || c.cfg.ClientID == "" || !errors.As(err, &refused) || !refused.token() {
			return err
		}
		c.forget(token)
	}
}

func (c *Catalog) once(ctx context.Context, path, what, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the catalogue for its %s: %w", what, bare(err))
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return object.Transient(object.Ours(fmt.Errorf("ask the catalogue at %s: %w", req.URL.Host, bare(err))))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(req.URL.Host, what, resp)
	}
	return c.decode(req.URL.Host, resp.Body, into)
}

// bare is an error without the URL that it is about.
func bare(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func (c *Catalog) decode(host string, body io.Reader, into any) error {
	limited := &io.LimitedReader{R: body, N: c.most + 1}
	err := json.NewDecoder(limited).Decode(into)
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case limited.N <= 0:
		return fmt.Errorf("the catalogue at %s answers with more than %d bytes; expire snapshots of the table, or "+
			"name its metadata file by its URI", host, c.most)
	case errors.As(err, &syntax) || errors.As(err, &typed):
		return fmt.Errorf("the catalogue at %s answers with what is no JSON of a REST catalogue; check its uri", host)
	}
	return object.Transient(fmt.Errorf("the answer of the catalogue at %s broke off: %w", host, bare(err)))
}

// refusedError is an answer that refuses.
type refusedError struct {
	host, what, typ string
	status          int
}

func (e *refusedError) Error() string {
	text := fmt.Sprintf("the catalogue at %s answers %d %s", e.host, e.status, http.StatusText(e.status))
	if e.typ != "" {
		text += " (" + e.typ + ")"
	}
	return text + " when asked for its " + e.what
}

// token reports whether the token may be the reason.
func (e *refusedError) token() bool {
	return e.status == http.StatusUnauthorized || e.status == statusTimeout
}

// isType is what types of errors look like: what else a server says is not repeated.
var isType = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// maxRefusal bounds an answer that refuses.
const maxRefusal = 64 << 10

// refusal is the error of an answer that refuses.
func refusal(host, what string, resp *http.Response) error {
	e := &refusedError{host: host, what: what, status: resp.StatusCode}
	var answer struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxRefusal)).Decode(&answer)
	if err == nil && isType.MatchString(answer.Error.Type) {
		e.typ = answer.Error.Type
	}
	switch status := e.status; {
	case status == http.StatusTooManyRequests, status >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return object.Later(e, time.Duration(min(max(seconds, 0), 3600))*time.Second)
	case status/100 == 3:
		return object.Ours(fmt.Errorf("%w, by a redirect, which is not followed: tokens would go along; correct the "+
			"catalogue's uri", e))
	case e.token():
		return object.Ours(fmt.Errorf("%w; check the catalogue's token or client credentials: %w", object.ErrDenied, e))
	case status == http.StatusForbidden:
		return object.Ours(fmt.Errorf("%w; have the catalogue's account allowed to read it: %w", object.ErrDenied, e))
	case status == http.StatusNotFound:
		return fmt.Errorf("%w; check the name, and the catalogue's uri and warehouse: %w", e, fs.ErrNotExist)
	}
	return e
}
