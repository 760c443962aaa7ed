package gs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// Where a profile's credentials come from.
const (
	// ApplicationDefault, the default, looks where Google's own tools do: the file that GOOGLE_APPLICATION_CREDENTIALS
	// names, that of `gcloud auth application-default login`, and the machine's or pod's own account.
	ApplicationDefault = "application_default"
	// ServiceAccount reads the key of a service account from CredentialsFile.
	ServiceAccount = "service_account"
	// Anonymous sends no token.
	Anonymous = "anonymous"
)

// emulator is the variable by which Google's own libraries find what stands in for the service.
const emulator = "STORAGE_EMULATOR_HOST"

// Profile says how to reach Google Cloud Storage. It holds no secrets.
type Profile struct {
	// Type is what chose this store: "gs".
	Type string `yaml:"type"`
	// Endpoint is the service's URL ("https://host:port"); without a scheme it is https. Empty: that of
	// STORAGE_EMULATOR_HOST, or Google's.
	Endpoint string `yaml:"endpoint"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
	// Credentials is ApplicationDefault, ServiceAccount or Anonymous. Empty: ServiceAccount if CredentialsFile is set,
	// Anonymous for STORAGE_EMULATOR_HOST, else ApplicationDefault.
	Credentials string `yaml:"credentials"`
	// CredentialsFile is the path of a service account's key, in JSON; only with ServiceAccount. It is read each time
	// that a token is fetched.
	CredentialsFile string `yaml:"credentials_file"`
	// UserProject pays for requests to buckets whose owners have their readers pay.
	UserProject string `yaml:"user_project"`
	// Write lists folders (gs://bucket/derived/) below which new files may be written; none if empty.
	Write []string `yaml:"write"`
}

// WritePrefixes are the folders below which new files may be begun.
func (p *Profile) WritePrefixes() []string { return p.Write }

// source is Credentials with its default.
func (p *Profile) source() string {
	switch {
	case p.Credentials != "":
		return p.Credentials
	case p.CredentialsFile != "":
		return ServiceAccount
	case p.Endpoint == "" && os.Getenv(emulator) != "":
		return Anonymous
	}
	return ApplicationDefault
}

// Validate finds mistakes that can be seen without connecting.
func (p *Profile) Validate() error {
	switch p.source() {
	case ApplicationDefault, Anonymous:
		if p.CredentialsFile != "" {
			return fmt.Errorf("credentials_file goes with credentials: service_account, not %s", p.source())
		}
	case ServiceAccount:
		if p.CredentialsFile == "" {
			return errors.New("credentials: service_account needs credentials_file, the path of the account's key")
		}
	default:
		return errors.New("unknown kind of credentials; use application_default, service_account or anonymous")
	}
	if p.UserProject != "" && p.source() == Anonymous {
		return errors.New("user_project needs credentials: nobody pays for anonymous requests")
	}
	for _, prefix := range p.Write {
		_, err := canonical(prefix)
		if err != nil || !strings.HasPrefix(prefix, Scheme) || strings.ContainsAny(prefix, "*?[") {
			return fmt.Errorf("write: %s is no folder; list such as gs://bucket/derived/", prefix)
		}
	}
	_, err := p.endpoint()
	return err
}

// endpoint returns the service's URL. It is not repeated in messages: some write credentials into it.
func (p *Profile) endpoint() (*url.URL, error) {
	given, what, scheme := p.Endpoint, "the endpoint", "https"
	if host := os.Getenv(emulator); given == "" && host != "" {
		given, what, scheme = host, emulator, "http" // as Google's libraries take it
	}
	if given == "" {
		return &url.URL{Scheme: "https", Host: "storage.googleapis.com"}, nil
	}
	if !strings.Contains(given, "://") {
		given = scheme + "://" + given
	}
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("%s is not a URL; write https://host:port", what)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: the scheme must be http or https", what)
	case u.User != nil:
		return nil, fmt.Errorf("%s holds credentials; take them out and use credentials_file", what)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return nil, fmt.Errorf("%s must have no path; write https://host:port", what)
	case u.Scheme == "http" && p.source() != Anonymous && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf(
			"%s is http, which would show tokens to the network; use https, or credentials: anonymous", what)
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
