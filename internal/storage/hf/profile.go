package hf

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// hub is the service that there is if none is named.
const hub = "https://huggingface.co"

// cdn is what the hub redirects to.
var cdn = regexp.MustCompile(`\.(huggingface|hf)\.co:443$`)

// Profile says how the hub is reached. It holds no secrets.
type Profile struct {
	// Type is what chose this store: "hf".
	Type string `yaml:"type"`
	// Endpoint is the hub's URL; empty: that of HF_ENDPOINT, or https://huggingface.co.
	Endpoint string `yaml:"endpoint"`
	// Hosts may be redirected to besides the endpoint, and the CDNs of the hub itself: "cdn.example.org".
	Hosts []string `yaml:"hosts"`
	// AllowAddresses are ranges ("10.1.0.0/16") of addresses that may be dialled although they are not public.
	AllowAddresses []string `yaml:"allow_addresses"`
	// TokenEnv names the environment variable with a token, TokenFile a file that is read at each request. Neither: as
	// the hub's own tools have it (HF_TOKEN, HF_TOKEN_PATH, HF_HOME, ~/.cache/huggingface/token).
	TokenEnv  string `yaml:"token_env"`
	TokenFile string `yaml:"token_file"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
}

// Store describes the hub's datasets.
func Store() object.Store {
	return object.Store{
		Name: "hf", Schemes: []string{"hf"}, Canonical: canonical, Unversioned: unversioned,
		Profile: func() object.Profile { return &Profile{} },
	}
}

// Validate finds mistakes that can be seen without connecting.
func (p *Profile) Validate() error {
	if _, err := p.endpoint(); err != nil {
		return err
	}
	if err := web.CheckHosts(p.Hosts); err != nil {
		return err
	}
	if p.TokenEnv != "" && p.TokenFile != "" {
		return errors.New("token_env and token_file: only one of them can be meant")
	}
	_, err := web.Prefixes(p.AllowAddresses)
	return err
}

// endpoint is the hub's URL. It is not repeated in messages: some write a token into it.
func (p *Profile) endpoint() (*url.URL, error) {
	given := strings.TrimRight(firstSet(p.Endpoint, os.Getenv("HF_ENDPOINT"), hub), "/")
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the endpoint, or HF_ENDPOINT, is no URL of a hub; write such as " + hub)
	}
	if u.Scheme != "https" {
		return nil, errors.New("the endpoint, or HF_ENDPOINT, must be https: it is sent a token")
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	endpoint, err := p.endpoint()
	if err != nil {
		return nil, err
	}
	private, err := web.Prefixes(p.AllowAddresses)
	if err != nil {
		return nil, err
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	hosts := web.Hosts(append(slices.Clone(p.Hosts), endpoint.Host))
	allows := func(host string) bool { return hosts(host) || endpoint.String() == hub && cdn.MatchString(host) }
	c, err := web.New(web.Rules{Hosts: allows, Private: private, CAFile: p.CAFile})
	if err != nil {
		return nil, err
	}
	places := lru.New[string, found](placesBytes)
	return &Client{web: c, endpoint: endpoint, token: token, places: places}, nil
}

// token is where the token comes from.
func (p *Profile) token() (web.Token, error) {
	switch {
	case p.TokenEnv != "" && os.Getenv(p.TokenEnv) == "":
		return web.Token{}, object.Unset("token_env")
	case p.TokenEnv != "" || p.TokenFile != "":
		return web.Token{Env: p.TokenEnv, File: p.TokenFile}, nil
	case os.Getenv("HF_TOKEN") != "":
		return web.Token{Env: "HF_TOKEN"}, nil
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache")
	}
	home := firstSet(os.Getenv("HF_HOME"), filepath.Join(cache, "huggingface"))
	return web.Token{File: firstSet(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")), Optional: true}, nil
}

func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
