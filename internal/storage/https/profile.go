package https

import (
	"errors"
	"os"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

// Profile says which servers are read, and how. It holds no secrets.
type Profile struct {
	// Type is what chose this store: "https".
	Type string `yaml:"type"`
	// Hosts may be read, and no others: "data.example.org", or on another port than 443 "data.example.org:8443".
	Hosts []string `yaml:"hosts"`
	// AllowAddresses are ranges ("10.1.0.0/16") of addresses that may be dialled although they are not public.
	AllowAddresses []string `yaml:"allow_addresses"`
	// TokenEnv names the environment variable with a token, TokenFile a file that is read at each request.
	TokenEnv  string `yaml:"token_env"`
	TokenFile string `yaml:"token_file"`
	// TokenHeader is the header that the token is the value of; empty: Authorization, behind "Bearer".
	TokenHeader string `yaml:"token_header"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
	// Plain allows http://, for labs.
	Plain bool `yaml:"plain"`
}

// Store describes web servers.
func Store() object.Store {
	return object.Store{
		Name: "https", Schemes: []string{"https", "http"}, Canonical: canonical,
		Profile: func() object.Profile { return &Profile{} },
	}
}

// Validate finds mistakes that can be seen without connecting.
func (p *Profile) Validate() error {
	if err := web.CheckHosts(p.Hosts); err != nil {
		return err
	}
	if _, err := web.Prefixes(p.AllowAddresses); err != nil {
		return err
	}
	switch {
	case p.TokenEnv != "" && p.TokenFile != "":
		return errors.New("token_env and token_file: only one of them can be meant")
	case p.TokenEnv == "" && p.TokenFile == "":
		if p.TokenHeader != "" {
			return errors.New("token_header needs token_env or token_file, which say where the token is")
		}
	case p.Plain:
		return errors.New("plain: a token is not sent over http://; use a profile without one")
	}
	if p.TokenHeader != "" && !httpguts.ValidHeaderFieldName(p.TokenHeader) {
		return errors.New("token_header is no name of a header; write such as X-API-Key")
	}
	return nil
}

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.TokenEnv != "" && os.Getenv(p.TokenEnv) == "" {
		return nil, object.Unset("token_env")
	}
	private, err := web.Prefixes(p.AllowAddresses)
	if err != nil {
		return nil, err
	}
	c, err := web.New(web.Rules{Hosts: web.Hosts(p.Hosts), Private: private, Plain: p.Plain, CAFile: p.CAFile})
	if err != nil {
		return nil, err
	}
	token := web.Token{Env: p.TokenEnv, File: p.TokenFile, Header: p.TokenHeader}
	return &Client{web: c, hosts: len(p.Hosts) > 0, token: token}, nil
}
