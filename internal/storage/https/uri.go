package https

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// canonical writes a URL in one way, so that a file has one URI. What braces and wildcards are made of stays.
func canonical(uri string) (string, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(uri, "?#") { // it is not repeated: it may hold a secret
		return "", fmt.Errorf("a URI of scheme %s has a ? or #, which in a file's name is written %%3F or %%23: %w",
			scheme, object.ErrSecret)
	}
	h, err := web.Host(authority)
	if err != nil {
		return "", fmt.Errorf("%s: %w", uri, err)
	}
	h = strings.TrimSuffix(h, map[string]string{"https": ":443", "http": ":80"}[scheme])
	written, err := writePath(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", uri, err)
	}
	return scheme + "://" + h + "/" + written, nil
}

// writePath escapes what needs it in a path, and nothing else. No level may lead up, however it is written: servers
// differ in when they decode.
func writePath(path string) (string, error) {
	var out strings.Builder
	for at := 0; at < len(path); at++ {
		c := path[at]
		if c == '%' {
			decoded, err := url.PathUnescape(path[at:min(at+3, len(path))])
			if err != nil {
				return "", errors.New("a % in it begins no escape such as %20; write %25 for a % itself")
			}
			c = decoded[0]
			at += 2
			if !isUnreserved(c) {
				fmt.Fprintf(&out, "%%%02X", c)
				continue
			}
		}
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>^`|", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(c)
	}
	decoded, err := url.PathUnescape(out.String())
	if err != nil || strings.ContainsAny(decoded, "\x00\r\n") {
		return "", errors.New("it has characters that no URL has; correct it")
	}
	for level := range strings.FieldsFuncSeq(decoded, func(r rune) bool { return r == '/' || r == '\\' }) {
		if level == "." || level == ".." {
			return "", fmt.Errorf("it has a level %s; write the path without it", level)
		}
	}
	return out.String(), nil
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// urlOf is the URL that a canonical URI is. Braces that are left in it are letters.
func urlOf(uri string) (*url.URL, error) {
	u, err := url.Parse(strings.NewReplacer("{", "%7B", "}", "%7D", `\`, "%5C").Replace(uri))
	if err != nil {
		return nil, fmt.Errorf("%s is no URL; correct it: %w", uri, err)
	}
	return u, nil
}
