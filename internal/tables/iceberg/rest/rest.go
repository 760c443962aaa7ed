// Package rest asks REST catalogues of Iceberg where the metadata of their tables lies (the specification is
// open-api/rest-catalog-open-api.yaml of apache/iceberg). It makes one attempt of everything: package storage, which has
// catalogues by their names, tries again. It reads no data, and asks for no credentials of stores. Tokens and secrets
// are in no error. A Catalog may be used by many goroutines at once.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/penstock-ml/penstock/internal/storage/roots"
)

// maxAnswer bounds an answer: it has a table's whole metadata.
const maxAnswer = 256 << 20

// Catalog is one that can be asked.
type Catalog struct {
	cfg    Config
	base   string // of its URI, without a "/" at its end
	client *http.Client
	close  func()
	most   int64 // bytes of an answer

	mu    sync.Mutex
	token *oauth2.Token // the newest; nil: one is to be fetched
}

// New returns the catalogue that cfg describes. Nothing is connected to until it is asked.
func New(cfg Config) (*Catalog, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	transport, err := roots.Transport(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConnsPerHost = 2
	transport.ResponseHeaderTimeout = time.Minute
	// A redirect would carry the token elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Catalog{
		cfg: cfg, base: strings.TrimRight(cfg.URI, "/"), most: maxAnswer,
		client: &http.Client{Transport: transport, CheckRedirect: stay}, close: transport.CloseIdleConnections,
	}, nil
}

// Storage names the storage profile that the catalogue's tables are read with.
func (c *Catalog) Storage() string { return c.cfg.Storage }

// Close closes idle connections.
func (c *Catalog) Close() { c.close() }

// MetadataOf returns the URI of the newest metadata file of a table, as stores' URIs are spelled here. Dots divide the
// table's name into levels, such as "namespace.table"; a dot in one is written %2E.
func (c *Catalog) MetadataOf(ctx context.Context, table string) (string, error) {
	name, err := parseName(table)
	if err != nil {
		return "", err
	}
	at, err := c.configured(ctx)
	if err != nil {
		return "", err
	}
	var answer tableAnswer
	if err := c.get(ctx, at.table(name), "table "+table, &answer); err != nil {
		return "", err
	}
	return answer.uri()
}

// place is what a catalogue's configuration says of its paths.
type place struct{ prefix, separator string }

// table is the path of a table.
func (p place) table(n name) string {
	return "/v1/" + p.prefix + "namespaces/" + n.namespace(p.separator) + "/tables/" + url.PathEscape(n.table())
}

// configured asks for the catalogue's configuration, as clients shall before all else.
func (c *Catalog) configured(ctx context.Context) (place, error) {
	path := "/v1/config"
	if c.cfg.Warehouse != "" {
		path += "?warehouse=" + url.QueryEscape(c.cfg.Warehouse)
	}
	var answer configAnswer
	if err := c.get(ctx, path, "configuration", &answer); err != nil {
		return place{}, err
	}
	return answer.place()
}

// configAnswer is a CatalogConfig.
type configAnswer struct {
	Defaults  map[string]string `json:"defaults"`
	Overrides map[string]string `json:"overrides"`
}

func (a configAnswer) property(key string) string {
	if v, ok := a.Overrides[key]; ok {
		return v
	}
	return a.Defaults[key]
}

func (a configAnswer) place() (place, error) {
	p := place{separator: defaultSeparator}
	if encoded := a.property("namespace-separator"); encoded != "" {
		text, err := url.PathUnescape(encoded)
		if err != nil {
			return p, errors.New("the catalogue's namespace-separator is not encoded as in a URL")
		}
		p.separator = text
	}
	for level := range strings.SplitSeq(strings.Trim(a.property("prefix"), "/"), "/") {
		if level == "" {
			continue
		}
		if text, err := url.PathUnescape(level); err == nil { // some catalogues encode it
			level = text
		}
		if isStep(level) {
			return p, errors.New("the catalogue's prefix leads out of its paths")
		}
		p.prefix += url.PathEscape(level) + "/"
	}
	return p, nil
}

// tableAnswer is what is read of a LoadTableResult.
type tableAnswer struct {
	MetadataLocation string            `json:"metadata-location"`
	Config           map[string]string `json:"config"`
}

func (a tableAnswer) uri() (string, error) {
	switch {
	case a.Config["scan-planning-mode"] == "server":
		return "", errors.New("the catalogue plans scans of this table itself (scan-planning-mode: server), which " +
			"is not asked for: have it allow clients to plan")
	case a.MetadataLocation == "":
		return "", errors.New("the catalogue names no metadata file (metadata-location): the table is staged and " +
			"not committed, or the catalogue keeps its metadata to itself; write its rows to a table of files")
	}
	return storeURI(a.MetadataLocation)
}

// storeURI writes a location of a catalogue as URIs of stores are written here.
func storeURI(location string) (string, error) {
	if strings.HasPrefix(location, "/") {
		return "file://" + location, nil
	}
	scheme, rest, ok := strings.Cut(location, ":")
	if !ok || strings.ContainsFunc(location, isControl) {
		return "", fmt.Errorf("the catalogue's metadata-location is %.200q, which is no URI", location)
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "s3a", "s3n":
		scheme = "s3"
	case "file":
		rest = "//" + "/" + strings.TrimLeft(rest, "/")
	}
	return scheme + ":" + rest, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
