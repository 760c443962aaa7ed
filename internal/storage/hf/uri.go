package hf

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Scheme begins every URI of this backend; datasets/ORG/NAME@REVISION/path follows, as huggingface_hub has it.
const Scheme = "hf://"

const main = "main"

// place is what a URI names: a repository of a dataset, a revision, and a path in it.
type place struct {
	repo     string // ORG/NAME
	revision string // a branch, a tag or a commit; "" if the URI has none
	path     string
}

var (
	name     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,96}$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9_.+-][A-Za-z0-9_.+/-]{0,200}$`)
	// refs are revisions whose slashes need no escape.
	refs = regexp.MustCompile(`^refs/(convert/\w+|pr/\d+)(/|$)`)
	// commit is a version that never changes.
	commit = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// parse reads a URI.
func parse(uri string) (place, error) {
	rest, ok := strings.CutPrefix(uri, Scheme+"datasets/")
	if !ok {
		return place{}, fmt.Errorf("%s: of the hub, datasets are read; write hf://datasets/ORG/NAME/path", uri)
	}
	org, rest, _ := strings.Cut(rest, "/")
	dataset, path, _ := strings.Cut(rest, "/")
	dataset, given, versioned := strings.Cut(dataset, "@")
	if found := refs.FindString(given + "/" + path); versioned && given == "refs" && found != "" {
		given, path = strings.TrimSuffix(found, "/"), strings.TrimPrefix(given+"/"+path, found)
	}
	p := place{repo: org + "/" + dataset, path: path}
	if !isName(org) || !isName(dataset) {
		return place{}, fmt.Errorf("%s: hf://datasets/ must be followed by ORG/NAME, without wildcards or braces", uri)
	}
	if !versioned {
		return p, nil
	}
	decoded, err := url.PathUnescape(given)
	if decoded == "~parquet" {
		decoded = "refs/convert/parquet"
	}
	if err != nil || !revision.MatchString(decoded) || strings.Contains(decoded, "..") {
		return place{}, fmt.Errorf("%s: behind @ stands a branch, a tag or a commit, with %%2F for each / in it, such "+
			"as @main or @refs%%2Fconvert%%2Fparquet", uri)
	}
	p.revision = decoded
	return p, nil
}

func isName(text string) bool { return name.MatchString(text) && text != "." && text != ".." }

// root is the URI of the repository's version.
func (p place) root() string {
	if p.revision == "" {
		return Scheme + "datasets/" + p.repo + "/"
	}
	return Scheme + "datasets/" + p.repo + "@" + strings.ReplaceAll(p.revision, "/", "%2F") + "/"
}

// canonical writes a URI with its revision escaped.
func canonical(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, Scheme+"datasets/")
	if org, isOrg := strings.CutSuffix(rest, "/"); ok && isOrg && isName(org) {
		return uri, nil // what namespaces may name
	}
	p, err := parse(uri)
	if err != nil {
		return "", err
	}
	return p.root() + p.path, nil
}

func unversioned(uri string) string {
	p, err := parse(uri)
	if err != nil {
		return uri
	}
	p.revision = ""
	return p.root() + p.path
}

// pinned reads the URI of a file.
func pinned(uri string) (place, error) {
	p, err := parse(uri)
	if err != nil {
		return p, err
	}
	if !commit.MatchString(p.revision) {
		return p, fmt.Errorf("%s: it names no commit, as URIs of files do", uri)
	}
	for level := range strings.SplitSeq(p.path, "/") {
		if level == "." || level == ".." {
			return p, errors.New("a path in a dataset has no level " + level)
		}
	}
	return p, nil
}

// escaped is a path as URLs have it.
func escaped(path string) string {
	levels := strings.Split(path, "/")
	for i, level := range levels {
		levels[i] = url.PathEscape(level)
	}
	return strings.Join(levels, "/")
}
