package az

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Schemes of this store's URIs: az://container/path, whose account the profile names, and
// abfss://container@account.dfs.core.windows.net/path.
const (
	schemeAZ    = "az"
	schemeABFSS = "abfss"
)

// clouds are the domains of Azure's clouds: tokens go nowhere else.
func clouds() []string {
	return []string{"core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn"}
}

var (
	containers = regexp.MustCompile(`^(\$root|\$web|\$logs|[a-z0-9](-?[a-z0-9])+)$`)
	accounts   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
)

// place is what a URI names.
type place struct {
	root      string // what its URI begins with, up to the blob's name
	container string
	account   string // "" if the URI names none
	cloud     string // the domain, if the URI names one
	blob      string
}

// parse takes a URI apart. Its errors do not repeat it if it may hold a secret.
func parse(uri string) (place, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	authority, blob, _ := strings.Cut(rest, "/")
	if _, query, ok := strings.Cut(blob, "?"); ok && strings.Contains(query, "sig=") {
		return place{}, object.Secret(fmt.Errorf(
			"a URI of scheme %s holds a shared access signature; it belongs in the environment variable that sas_env "+
				"of a storage profile names", scheme))
	}
	p := place{root: scheme + "://" + authority + "/", container: authority, blob: blob}
	if scheme == schemeABFSS {
		container, host, ok := strings.Cut(authority, "@")
		if strings.Contains(container, ":") || strings.Contains(host, "@") {
			return place{}, object.Secret(fmt.Errorf("a URI of scheme %s holds credentials; they belong in a storage "+
				"profile, which the spec names", scheme))
		}
		p.container = container
		p.account, p.cloud, _ = strings.Cut(host, ".dfs.")
		if !ok || !accounts.MatchString(p.account) || !slices.Contains(clouds(), p.cloud) {
			return place{}, fmt.Errorf("%s: abfss:// must be followed by a container and an account, as in "+
				"abfss://container@account.dfs.core.windows.net/data/", uri)
		}
	}
	if n := len(p.container); !containers.MatchString(p.container) || n < 3 || n > 63 {
		return place{}, fmt.Errorf(
			"%s: the name of its container is none: it has 3 to 63 lower-case letters, digits and single hyphens, "+
				"as in az://container/data/", uri)
	}
	return p, nil
}

// canonical checks a URI, and completes it.
func canonical(uri string) (string, error) {
	p, err := parse(uri)
	if err != nil {
		return "", err
	}
	return p.root + p.blob, nil
}

// at is a place as this client reaches it.
type at struct {
	place
	base *url.URL // of the account
}

// locate says where what a URI names is.
func (c *Client) locate(uri string) (at, error) {
	p, err := parse(uri)
	if err != nil {
		return at{}, err
	}
	for level := range strings.FieldsFuncSeq(p.blob, func(r rune) bool { return r == '/' || r == '\\' }) {
		if level == "." || level == ".." {
			return at{}, fmt.Errorf("it has a level %s, which is no name of a blob; take it out", level)
		}
	}
	switch {
	case p.account == "" && c.account == "":
		return at{}, errors.New("no account is named; set the storage profile's account, or AZURE_STORAGE_ACCOUNT, " +
			"or write abfss://container@account.dfs.core.windows.net/path")
	case p.account == "":
		p.account = c.account
	case c.profile.isBound() && p.account != c.account:
		return at{}, fmt.Errorf("the storage profile is one of account %s, and the URI of account %s; name a profile "+
			"of that account", c.account, p.account)
	}
	base, err := c.profile.endpoint()
	if err != nil {
		return at{}, err
	}
	if base == nil {
		cloud := p.cloud
		if cloud == "" {
			cloud = clouds()[0]
		}
		base = &url.URL{Scheme: "https", Host: p.account + ".blob." + cloud}
	}
	return at{p, base}, nil
}

// url is that of a blob, or of the container if there is no name.
func (a at) url(query url.Values) *url.URL {
	u := *a.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + a.container
	u.RawPath = escape(u.Path)
	if a.blob != "" {
		u.Path += "/" + a.blob
		u.RawPath += "/" + escape(a.blob)
	}
	u.RawQuery = query.Encode()
	return &u
}

// escape leaves alone what no part of the way takes for anything else.
func escape(path string) string {
	var out strings.Builder
	for i := range len(path) {
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/$", c) >= 0 {
			out.WriteByte(c)
			continue
		}
		fmt.Fprintf(&out, "%%%02X", c)
	}
	return out.String()
}
