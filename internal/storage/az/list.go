package az

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// maxPage bounds a page of a listing: 5000 blobs with names of 1024 characters and metadata of 8 KiB.
const maxPage = 64 << 20

// page is a page of a listing.
type page struct {
	XMLName  xml.Name `xml:"EnumerationResults"`
	Blobs    []blob   `xml:"Blobs>Blob"`
	Prefixes []struct {
		Name name
	} `xml:"Blobs>BlobPrefix"`
	NextMarker string
}

type blob struct {
	Name       name
	Properties struct {
		ETag         string `xml:"Etag"`
		Length       int64  `xml:"Content-Length"`
		ResourceType string
	}
	Metadata struct {
		All []struct {
			XMLName xml.Name
			Value   string `xml:",chardata"`
		} `xml:",any"`
	}
}

// name is percent-encoded where XML has no place for its characters.
type name struct {
	Encoded bool   `xml:"Encoded,attr"`
	Text    string `xml:",chardata"`
}

func (n name) decode() (string, error) {
	if !n.Encoded {
		return n.Text, nil
	}
	return url.PathUnescape(n.Text)
}

func (b blob) isFolder() bool {
	hadoop := ""
	for _, m := range b.Metadata.All {
		if strings.EqualFold(m.XMLName.Local, "hdi_isfolder") {
			hadoop = m.Value
		}
	}
	return isFolder(b.Properties.ResourceType, hadoop)
}

// mayMark reports whether a page has an entry that may only mark a directory: its metadata would say.
func (p page) mayMark() bool {
	for _, b := range p.Blobs {
		if b.Properties.Length == 0 && b.Properties.ResourceType == "" {
			return true
		}
	}
	return false
}

// detailed begins the mark of a listing whose pages have metadata: it has entries that they tell from files.
const detailed = "detailed "

// List hands each blob that q asks for to yield, in the service's order: where directories are such, what lies in one
// comes before what begins with its name. It goes on from q.Mark, the service's own.
func (c *Client) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	where, err := c.locate(q.Prefix)
	if err != nil {
		return err
	}
	mark := q.Mark
	if mark == nil {
		mark = new(string)
	}
	var marks object.Marks
	for {
		marker, withMetadata := strings.CutPrefix(*mark, detailed)
		p, err := c.page(ctx, where, q.Flat, marker, withMetadata)
		if err != nil {
			return err
		}
		q.Pass() // whatever the page holds
		if !withMetadata && p.mayMark() {
			*mark = detailed + *mark
			continue
		}
		if err := where.hand(p, q, yield); err != nil {
			return err
		}
		if p.NextMarker == "" {
			return context.Cause(ctx)
		}
		if err := marks.Next(p.NextMarker); err != nil {
			return err
		}
		*mark = strings.TrimSuffix(*mark, marker) + p.NextMarker
	}
}

// hand hands the blobs of a page to yield.
func (a at) hand(p page, q object.Query, yield func(*pb.File) error) error {
	for range p.Prefixes {
		q.Pass()
	}
	for _, b := range p.Blobs {
		n, err := b.Name.decode()
		if err != nil || !strings.HasPrefix(n, a.blob) {
			return fmt.Errorf("the service lists a name that does not begin with %q; check the storage profile's "+
				"endpoint", a.blob)
		}
		if strings.HasSuffix(n, "/") || b.isFolder() {
			q.Pass()
			continue
		}
		f, err := describe(a.root+n, b.Properties.Length, b.Properties.ETag)
		if err == nil {
			err = yield(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page asks for a page of the blobs whose names begin with a place's.
func (c *Client) page(ctx context.Context, where at, flat bool, mark string, withMetadata bool) (page, error) {
	query := url.Values{"restype": {"container"}, "comp": {"list"}}
	for name, value := range map[string]string{"prefix": where.blob, "marker": mark} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if flat {
		query.Set("delimiter", "/")
	}
	if withMetadata {
		query.Set("include", "metadata")
	}
	container := where
	container.blob = ""
	resp, err := c.do(ctx, request{method: http.MethodGet, at: container, query: query})
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	p, err := readPage(resp.Body, maxPage)
	if err != nil && ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	return p, err
}

// readPage reads a page as the service writes it, of so many bytes at most.
func readPage(from io.Reader, most int64) (page, error) {
	var p page
	body := &io.LimitedReader{R: from, N: most}
	err := xml.NewDecoder(body).Decode(&p)
	if err == nil {
		return p, nil
	}
	syntax, malformed := errors.AsType[*xml.SyntaxError](err)
	switch {
	case body.N == 0:
		return p, fmt.Errorf("check whether the storage profile's endpoint is a Blob service: its answer has more "+
			"than %d MiB, which no page of a listing has", most>>20)
	case malformed && !strings.HasPrefix(syntax.Msg, "unexpected EOF"), isForeign(err):
		return p, fmt.Errorf("check whether the storage profile's endpoint is a Blob service: its answer is no page "+
			"of a listing: %s", cut(err.Error(), maxMessage))
	}
	return p, object.Transient(err) // it was cut
}

// isForeign reports whether XML was read, and holds something else.
func isForeign(err error) bool {
	_, other := errors.AsType[xml.UnmarshalError](err)
	return other || strings.HasPrefix(err.Error(), "strconv.")
}
