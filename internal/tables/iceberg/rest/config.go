package rest

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Config says how a catalogue is reached. It holds no secrets, only where to find them. Each field has its name as yaml
// tag, by which the environment sets it.
type Config struct {
	// URI is what the paths of the specification follow: https://catalog.example.org/iceberg of .../iceberg/v1/config.
	URI string `yaml:"uri"`
	// Warehouse is the one that is meant, for catalogues that have several.
	Warehouse string `yaml:"warehouse"`
	// Storage names the storage profile that the tables are read with; "" is "default".
	Storage string `yaml:"storage"`
	// TokenEnv names the environment variable with a token, TokenFile a file that is read at each request.
	TokenEnv  string `yaml:"token_env"`
	TokenFile string `yaml:"token_file"`
	// ClientID and a secret, in an environment variable or a file, fetch tokens by OAuth2's client credentials.
	ClientID         string `yaml:"client_id"`
	ClientSecretEnv  string `yaml:"client_secret_env"`
	ClientSecretFile string `yaml:"client_secret_file"`
	// OAuth2URI is where tokens are fetched; "": the catalogue's own /v1/oauth/tokens.
	OAuth2URI string `yaml:"oauth2_uri"`
	// Scope of the tokens that are fetched; "" is "catalog".
	Scope string `yaml:"scope"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
}

// Validate finds mistakes that can be seen without connecting. Its errors repeat no values.
func (c *Config) Validate() error {
	if c.URI == "" {
		return errors.New("want uri, such as https://catalog.example.org/iceberg")
	}
	if err := c.checkURL("uri", c.URI); err != nil {
		return err
	}
	token, secret := c.TokenEnv != "" || c.TokenFile != "", c.ClientSecretEnv != "" || c.ClientSecretFile != ""
	switch {
	case c.TokenEnv != "" && c.TokenFile != "":
		return errors.New("token_env and token_file: only one of them can be meant")
	case c.ClientSecretEnv != "" && c.ClientSecretFile != "":
		return errors.New("client_secret_env and client_secret_file: only one of them can be meant")
	case token && (secret || c.ClientID != ""):
		return errors.New("a token and client credentials: only one of them can be meant")
	case secret != (c.ClientID != ""):
		return errors.New("client_id goes with client_secret_env or client_secret_file")
	case !secret && (c.OAuth2URI != "" || c.Scope != ""):
		return errors.New("oauth2_uri and scope go with client_id")
	}
	if c.OAuth2URI != "" {
		return c.checkURL("oauth2_uri", c.OAuth2URI)
	}
	return nil
}

// checkURL does not repeat the URL: some write secrets there.
func (c *Config) checkURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New(field + " is not a URL of a server without credentials; write https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New(field + " must begin with https://")
	case u.Scheme == "http" && c.signs() && !isLoopback(u.Hostname()):
		return errors.New(field + " must begin with https://, since a token or secret is sent there")
	}
	return nil
}

// signs reports whether requests bear what is secret.
func (c *Config) signs() bool { return c.TokenEnv != "" || c.TokenFile != "" || c.ClientID != "" }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// secretOf reads a token or secret, which may be renewed in place. Fields are the names of those that say where.
func secretOf(env, file, envField, fileField string) (string, error) {
	text := os.Getenv(env)
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil { // as text: it is no file of the table that is gone
			return "", object.Ours(errors.New("the catalogue's " + fileField + ": " + err.Error()))
		}
		text, envField = string(content), fileField
	}
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", object.Ours(errors.New("what the catalogue's " + envField + " names is empty, or no single word: " +
			"set it"))
	}
	return text, nil
}
