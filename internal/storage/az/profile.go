package az

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Where a profile's credentials come from.
const (
	// Default, the default, looks where Azure's own libraries do: environment, workload identity, managed identity,
	// and the login of az.
	Default = "default"
	// ManagedIdentity is that of the machine or pod.
	ManagedIdentity = "managed_identity"
	// FromKey signs with the account key in the environment variable that the profile names.
	FromKey = "key"
	// FromSAS sends the shared access signature in the environment variable that the profile names.
	FromSAS = "sas"
	// Anonymous signs nothing.
	Anonymous = "anonymous"
)

// Profile says how to reach an account of Azure Storage. It holds no secrets.
type Profile struct {
	// Type is what chose this store: "az".
	Type string `yaml:"type"`
	// Account is the storage account's name, or empty: AZURE_STORAGE_ACCOUNT, or that of each abfss:// URI.
	Account string `yaml:"account"`
	// Credentials is one of the above. Empty: FromKey or FromSAS if their variable is named, else Default.
	Credentials string `yaml:"credentials"`
	// ClientID is that of a user-assigned managed identity; only with ManagedIdentity.
	ClientID string `yaml:"client_id"`
	// Names of the environment variables with the account key and the shared access signature.
	AccountKeyEnv string `yaml:"account_key_env"`
	SASEnv        string `yaml:"sas_env"`
	// Endpoint is the Blob service's URL, with the account in its path if it has none in its host. Empty: Azure's.
	Endpoint string `yaml:"endpoint"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
	// Write lists folders (az://container/derived/) below which new files may be written; none if empty.
	Write []string `yaml:"write"`
}

// WritePrefixes are the folders below which new files may be begun.
func (p *Profile) WritePrefixes() []string { return p.Write }

// account is Account with its default.
func (p *Profile) account() string {
	if p.Account != "" {
		return p.Account
	}
	return os.Getenv("AZURE_STORAGE_ACCOUNT")
}

// source is Credentials with its default.
func (p *Profile) source() string {
	switch {
	case p.Credentials != "":
		return p.Credentials
	case p.AccountKeyEnv != "":
		return FromKey
	case p.SASEnv != "":
		return FromSAS
	}
	return Default
}

// isBound reports whether the profile is one of its account alone.
func (p *Profile) isBound() bool {
	return p.Account != "" || p.Endpoint != "" || p.source() == FromKey || p.source() == FromSAS
}

// Validate finds mistakes that can be seen without connecting.
func (p *Profile) Validate() error {
	source := p.source()
	switch source {
	case Default, ManagedIdentity, FromKey, FromSAS, Anonymous:
	default:
		return errors.New("unknown kind of credentials; use default, managed_identity, key, sas or anonymous")
	}
	for _, f := range []struct{ field, value, goes string }{
		{"account_key_env", p.AccountKeyEnv, FromKey},
		{"sas_env", p.SASEnv, FromSAS},
		{"client_id", p.ClientID, ManagedIdentity},
	} {
		if f.value != "" && source != f.goes {
			return fmt.Errorf("%s goes with credentials: %s, not %s", f.field, f.goes, source)
		}
		if f.value == "" && source == f.goes && f.field != "client_id" {
			return fmt.Errorf("credentials: %s needs %s, the name of an environment variable", source, f.field)
		}
	}
	switch account := p.account(); {
	case account == "" && p.isBound():
		return errors.New("the account is not named; set account, or AZURE_STORAGE_ACCOUNT")
	case account != "" && !accounts.MatchString(account):
		return errors.New("account is no name of a storage account; it has 3 to 24 lower-case letters and digits")
	}
	for _, prefix := range p.Write {
		_, err := parse(prefix)
		known := strings.HasPrefix(prefix, schemeAZ+"://") || strings.HasPrefix(prefix, schemeABFSS+"://")
		if err != nil || !known || strings.ContainsAny(prefix, "*?[") {
			return errors.New("write: it lists what is no folder; list such as az://container/derived/")
		}
	}
	_, err := p.endpoint()
	return err
}

// endpoint returns the account's URL; nil for Azure.
func (p *Profile) endpoint() (*url.URL, error) {
	if p.Endpoint == "" {
		return nil, nil //nolint:nilnil // as it says
	}
	u, err := url.Parse(p.Endpoint)
	// The endpoint is not repeated in messages: some write credentials into it.
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the endpoint is not a URL; write https://account.blob.core.windows.net")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint holds credentials or a query; take them out; account_key_env and " +
			"sas_env name where they are")
	case u.Scheme == "http" && !isLocal(u.Hostname()) && p.source() != FromKey && p.source() != Anonymous:
		return nil, fmt.Errorf("the endpoint is http, by which others could read what credentials: %s sends; use https",
			p.source())
	}
	return u, nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) { return New(p) }

// Store describes Azure Storage.
func Store() object.Store {
	return object.Store{
		Name: "az", Schemes: []string{schemeAZ, schemeABFSS}, Canonical: canonical, Named: []string{schemeABFSS},
		Profile: func() object.Profile { return &Profile{} },
	}
}
