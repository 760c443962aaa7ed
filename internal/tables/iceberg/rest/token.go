package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// authorization is the token that a request bears; "": none.
func (c *Catalog) authorization(ctx context.Context) (string, error) {
	switch {
	case c.cfg.TokenEnv != "" || c.cfg.TokenFile != "":
		return secretOf(c.cfg.TokenEnv, c.cfg.TokenFile, "token_env", "token_file")
	case c.cfg.ClientID == "":
		return "", nil
	}
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if token.Valid() {
		return token.AccessToken, nil
	}
	token, err := c.fetch(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.token = token
	c.mu.Unlock()
	return token.AccessToken, nil
}

// forget has another token fetched, unless that was done meanwhile.
func (c *Catalog) forget(refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != nil && c.token.AccessToken == refused {
		c.token = nil
	}
}

func (c *Catalog) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := secretOf(c.cfg.ClientSecretEnv, c.cfg.ClientSecretFile, "client_secret_env", "client_secret_file")
	if err != nil {
		return nil, err
	}
	by := clientcredentials.Config{
		ClientID: c.cfg.ClientID, ClientSecret: secret,
		TokenURL:  cmp.Or(c.cfg.OAuth2URI, c.base+"/v1/oauth/tokens"),
		Scopes:    []string{cmp.Or(c.cfg.Scope, "catalog")},
		AuthStyle: oauth2.AuthStyleInParams, // as Iceberg's own clients do
	}
	token, err := by.Token(context.WithValue(ctx, oauth2.HTTPClient, c.client))
	if err != nil {
		return nil, tokenError(by.TokenURL, err)
	}
	return token, nil
}

// isCode is what codes of errors of OAuth2 look like: what else a server says is not repeated.
var isCode = regexp.MustCompile(`^[a-z_]{1,64}$`)

func tokenError(at string, err error) error {
	host := at
	if u, bad := url.Parse(at); bad == nil {
		host = u.Host
	}
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		var of *url.Error
		if errors.As(err, &of) {
			return object.Transient(object.Ours(fmt.Errorf("fetch a token at %s: %w", host, of.Err)))
		}
		return object.Ours(fmt.Errorf("fetch a token at %s: its answer is none of OAuth2; check the catalogue's "+
			"oauth2_uri", host))
	}
	text := fmt.Sprintf("fetch a token at %s: it answers %d", host, refused.Response.StatusCode)
	if isCode.MatchString(refused.ErrorCode) {
		text += " (" + refused.ErrorCode + ")"
	}
	if status := refused.Response.StatusCode; status == http.StatusTooManyRequests || status >= 500 {
		return object.Transient(object.Ours(errors.New(text)))
	}
	return object.Ours(errors.New(text + "; check the catalogue's client_id, its secret, oauth2_uri and scope"))
}
