package keys

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/roots"
)

// Vault says how to reach a key service with the API of HashiCorp Vault's transit engine. It holds no secrets.
type Vault struct {
	// Address is the service's URL ("https://vault.example:8200"); http only on this machine.
	Address string `yaml:"address"`
	// Mount is where the transit engine is; "transit" by default.
	Mount string `yaml:"mount"`
	// Namespace, if the service has any.
	Namespace string `yaml:"namespace"`
	// TokenFile holds the token, TokenEnv names the environment variable that does; one of them.
	TokenFile string `yaml:"token_file"`
	TokenEnv  string `yaml:"token_env"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
	// Timeout of a call; 10 s by default.
	Timeout time.Duration `yaml:"timeout"`
}

// maxAnswer bounds an answer.
const maxAnswer = 1 << 20

type vault struct {
	cfg    Vault
	base   *url.URL
	client *http.Client
}

func newVault(cfg Vault) (*vault, error) {
	cfg.Mount, cfg.Timeout = cmp.Or(cfg.Mount, "transit"), cmp.Or(cfg.Timeout, 10*time.Second)
	base, err := url.Parse(cfg.Address)
	switch {
	case err != nil || base.Host == "" || base.User != nil: // not repeated: it may hold credentials
		return nil, errors.New("address is not a URL without credentials; write https://host:port")
	case base.Scheme != "https" && (base.Scheme != "http" || !isLoopback(base.Hostname())):
		return nil, errors.New("address must be https, since keys pass there")
	case (cfg.TokenFile == "") == (cfg.TokenEnv == ""):
		return nil, errors.New("want token_file, or token_env, the name of an environment variable")
	case cfg.Timeout < 0:
		return nil, errors.New("timeout must not be negative")
	}
	trusting, err := roots.TLS(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: cfg.Timeout,
		DialContext:         (&net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		TLSClientConfig: trusting,
	}
	// A redirection would carry the token elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &vault{cfg: cfg, base: base, client: &http.Client{Transport: t, CheckRedirect: stay}},
		nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (v *vault) named(name string) ([]byte, error) {
	return nil, fmt.Errorf("keys: the file names its key %q, which a vault does not give away; "+
		"have it written with key material, or name a file of keys in --storage-config", name)
}

// unwrap has the service decrypt. Where it is, configuration alone says: what a file claims of that is not believed.
func (v *vault) unwrap(ctx context.Context, master, wrapped string) ([]byte, error) {
	body, err := json.Marshal(map[string]string{"ciphertext": wrapped})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Plaintext string `json:"plaintext"`
		} `json:"data"`
	}
	if err := v.call(ctx, v.base.JoinPath("v1", v.cfg.Mount, "decrypt", url.PathEscape(master)), body,
		&answer); err != nil {
		return nil, fmt.Errorf("keys: vault at %s, master key %q: %w", v.base.Host, master, err)
	}
	key, err := base64.StdEncoding.DecodeString(answer.Data.Plaintext)
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("keys: vault at %s, master key %q: the answer holds no key in base64",
			v.base.Host, master)
	}
	return key, nil
}

func (v *vault) call(ctx context.Context, to *url.URL, body []byte, answer any) error {
	token, err := v.token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true")
	if v.cfg.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", v.cfg.Namespace)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return object.Transient(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if ctx.Err() != nil { // a service that sees its caller leave may still answer, with nothing
		return object.Transient(ctx.Err())
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return object.Transient(fmt.Errorf("it answered %s", resp.Status))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it refused with %s: check the token's policy and that the key exists", resp.Status)
	case err != nil:
		return object.Transient(err)
	}
	if json.Unmarshal(data, answer) != nil {
		return errors.New("its answer is not JSON")
	}
	return nil
}

// token is read for each call: agents renew it in place.
func (v *vault) token() (string, error) {
	token := os.Getenv(v.cfg.TokenEnv)
	if v.cfg.TokenFile != "" {
		data, err := os.ReadFile(v.cfg.TokenFile)
		if err != nil {
			return "", fmt.Errorf("token_file: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", errors.New("its token is empty or no single word")
	}
	return token, nil
}
