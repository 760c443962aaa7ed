// Package hf lists and reads datasets of the Hugging Face Hub (hf://datasets/ORG/NAME@REVISION/path), for package
// storage. A revision is read as the commit that it names when it is listed, so that files never change. It makes one
// attempt of everything: storage tries again. A Client may be used by many goroutines at once.
package hf

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
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// maxAnswer bounds an answer of the API: a page has 1000 names.
const maxAnswer = 16 << 20

// Client is a connection to one hub.
type Client struct {
	web      *web.Client
	endpoint *url.URL
	token    web.Token
	places   *lru.Cache[string, found] // of files, by URI
}

// Close closes idle connections.
func (c *Client) Close() { c.web.Close() }

// Root is what a URI begins with up to its revision.
func (c *Client) Root(uri string) (string, error) {
	p, err := parse(uri)
	return p.root(), err
}

// Pin asks which commit a revision is.
func (c *Client) Pin(ctx context.Context, root string) (string, error) {
	p, err := parse(root)
	if err != nil || commit.MatchString(p.revision) {
		return root, err
	}
	if p.revision == "" {
		p.revision = main
	}
	var info struct {
		SHA string `json:"sha"`
	}
	if _, err := c.ask(ctx, p, web.Request{URL: c.api(p, "revision", "")}, &info); err != nil {
		return "", err
	}
	if !commit.MatchString(info.SHA) {
		return "", fmt.Errorf("%s names %.60q as the commit of %s; check whether it is a hub",
			c.endpoint.Host, info.SHA, p.revision)
	}
	p.revision = info.SHA
	return p.root(), nil
}

// entry is a file or a folder as the API has it.
type entry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// file describes an entry: of a large file the API knows a hash of its content, of others one of git's.
func (p place) file(e entry) (*pb.File, error) {
	size, hash := e.Size, e.OID
	if e.LFS != nil {
		size, hash = e.LFS.Size, e.LFS.OID
	}
	p.path = e.Path
	f := &pb.File{Uri: p.root() + e.Path, Size: size, Etag: hash}
	if _, err := pinned(f.Uri); err != nil || e.Path == "" || hash == "" || size < 0 || strings.HasPrefix(e.Path, "/") {
		return nil, fmt.Errorf("the hub lists a file %.100q with hash %.100q and %d bytes; check whether it is a hub",
			e.Path, hash, size)
	}
	return f, nil
}

// Stat describes one file. It fails with fs.ErrNotExist if there is none.
func (c *Client) Stat(ctx context.Context, uri string) (*pb.File, error) {
	p, err := pinned(uri)
	if err != nil {
		return nil, err
	}
	form := url.Values{"paths": {p.path}, "expand": {"false"}}
	var found []entry
	_, err = c.ask(ctx, p, web.Request{
		Method: http.MethodPost, URL: c.api(p, "paths-info", ""), Body: form.Encode(),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}, &found)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		if e.Type == "file" && e.Path == p.path {
			return p.file(e)
		}
	}
	return nil, fmt.Errorf("no file of this name in the dataset %s: %w", p.repo, fs.ErrNotExist)
}

// List hands each file that q asks for to yield.
func (c *Client) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	dir := q.Prefix[:strings.LastIndexByte(q.Prefix, '/')+1]
	p, err := pinned(dir)
	if err != nil {
		return err
	}
	page := c.api(p, "tree", strings.TrimSuffix(p.path, "/"))
	page.RawQuery = url.Values{"recursive": {fmt.Sprint(!q.Flat)}, "expand": {"false"}}.Encode()
	if q.Mark != nil && *q.Mark != "" {
		if page, err = url.Parse(*q.Mark); err != nil {
			return err
		}
	}
	var marks object.Marks
	for first := q.Mark == nil || *q.Mark == ""; page != nil; first = false {
		if err := marks.Next(page.String()); err != nil {
			return err
		}
		var entries []entry
		header, err := c.ask(ctx, p, web.Request{URL: page}, &entries)
		switch gone := errors.Is(err, fs.ErrNotExist); {
		case gone && first:
			return nil // as of an empty folder, which git does not have
		case gone: // as text: the files before are there
			return fmt.Errorf("the hub's listing ends before its end; list again: %v", err) //nolint:errorlint // see above
		}
		if err != nil {
			return err
		}
		q.Pass()
		for _, e := range entries {
			if e.Type != "file" {
				continue
			}
			f, err := p.file(e)
			if err == nil && strings.HasPrefix(f.Uri, q.Prefix) {
				err = yield(f)
			}
			if err != nil {
				return err
			}
		}
		if page, err = c.next(page, header); err != nil {
			return err
		}
		if page != nil && q.Mark != nil {
			*q.Mark = page.String()
		}
	}
	return nil
}

// link is the next page of a listing.
var link = regexp.MustCompile(`<([^<>]+)>\s*;\s*rel="?next"?`)

// next is the URL of the page that follows; nil: none. It is asked with the token, so that it must be the hub's.
func (c *Client) next(page *url.URL, h http.Header) (*url.URL, error) {
	m := link.FindStringSubmatch(h.Get("Link"))
	if m == nil {
		return nil, nil
	}
	to, err := page.Parse(m[1])
	if err != nil || to.Scheme != page.Scheme || to.Host != page.Host || to.User != nil {
		return nil, errors.New("the hub's listing goes on at another server, which is not asked; set HF_ENDPOINT, or " +
			"the storage profile's endpoint, to the URL by which the hub names itself")
	}
	return to, nil
}

// api is the URL of a question about a version of a dataset.
func (c *Client) api(p place, question, path string) *url.URL {
	if path != "" {
		path = "/" + path
	}
	return c.at("/api/datasets/"+p.repo+"/"+question+"/"+url.PathEscape(p.revision), path)
}

// at is a URL of the hub: what a path begins with is escaped, what follows is not.
func (c *Client) at(begin, path string) *url.URL {
	u := *c.endpoint
	u.RawPath = u.EscapedPath() + begin + escaped(path)
	u.Path, _ = url.PathUnescape(u.RawPath) // it was escaped
	return &u
}

// ask decodes an answer of the API.
func (c *Client) ask(ctx context.Context, p place, r web.Request, into any) (http.Header, error) {
	secret, err := c.token.Headers()
	if err != nil {
		return nil, err
	}
	r.Secret = secret
	resp, err := c.web.Do(ctx, r)
	if err != nil {
		return nil, c.explain(p, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, object.Transient(fmt.Errorf("the hub's answer was cut: %w", err))
	case len(text) > maxAnswer:
		return nil, errors.New("the hub's answer has more than 16 MiB, which no page of a listing has; check the " +
			"endpoint")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("the hub's answer is not what the hub's API gives; check the endpoint: %w", err)
	}
	return resp.Header, nil
}

// explain says in words what the hub refuses. It answers 401 for datasets that are not there, too.
func (c *Client) explain(p place, err error) error {
	var refused *web.StatusError
	if !errors.As(err, &refused) {
		return err
	}
	page := c.endpoint.String() + "/datasets/" + p.repo
	code := refused.Header.Get("X-Error-Code")
	switch {
	case code == "GatedRepo":
		return fmt.Errorf("%w: accept the terms of the dataset at %s, and set HF_TOKEN, or token_env of the storage "+
			"profile, to the token of who accepted them", object.ErrDenied, page)
	case code == "RevisionNotFound":
		return fmt.Errorf("the dataset %s has no revision %s; see %s/tree/main: %w",
			p.repo, p.revision, page, fs.ErrNotExist)
	case code == "RepoNotFound", refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
		return c.token.Explain(fmt.Errorf("%w: there is no dataset at %s, or it is private; correct its name, or set "+
			"HF_TOKEN, or token_env of the storage profile, to a token that may read it: %w",
			object.ErrDenied, page, refused))
	}
	return err
}
