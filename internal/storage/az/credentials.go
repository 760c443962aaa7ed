package az

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// signer lets requests pass. Many goroutines may use one at once.
type signer interface {
	// sign adds to a request to an account what lets it pass. It comes last.
	sign(ctx context.Context, account string, req *http.Request) error
	// advice says what to do if a request does not pass.
	advice() string
	// hide takes out of a text what is secret.
	hide(text string) string
}

// signer returns the one that the profile's credentials say; client is for those that ask others.
func (p *Profile) signer(client *http.Client) (signer, error) {
	switch p.source() {
	case FromKey:
		given, err := variable("account_key_env", p.AccountKeyEnv)
		if err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return nil, object.Ours(fmt.Errorf("environment variable %s holds no account key, which is base64; "+
				"copy it from az storage account keys list", p.AccountKeyEnv))
		}
		return &sharedKey{name: p.AccountKeyEnv, text: given, key: key, now: time.Now}, nil
	case FromSAS:
		given, err := variable("sas_env", p.SASEnv)
		if err != nil {
			return nil, err
		}
		return newSAS(p.SASEnv, given)
	case Anonymous:
		return anonymous{}, nil
	}
	return newTokens(p.identity(client)), nil
}

// variable is the value of the environment variable that a field of the profile names.
func variable(field, name string) (string, error) {
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return "", object.Ours(object.Unset(field))
	}
	return value, nil
}

// hidden stands for a secret.
const hidden = "…"

type anonymous struct{}

func (anonymous) sign(context.Context, string, *http.Request) error { return nil }
func (anonymous) hide(text string) string                           { return text }

func (anonymous) advice() string { return "set the storage profile's credentials" }

// sharedKey signs with the account's key.
type sharedKey struct {
	name, text string
	key        []byte
	now        func() time.Time
}

func (k *sharedKey) sign(_ context.Context, account string, req *http.Request) error {
	req.Header.Set("X-Ms-Date", k.now().UTC().Format(http.TimeFormat))
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(toSign(account, req)))
	req.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// toSign is the text that Shared Key signs: the method, these headers, those of Azure's own, and what is asked for.
func toSign(account string, req *http.Request) string {
	length := ""
	if req.ContentLength > 0 {
		length = strconv.FormatInt(req.ContentLength, 10)
	}
	h := req.Header
	lines := []string{
		req.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length, h.Get("Content-MD5"),
		h.Get("Content-Type"), "", h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"),
		h.Get("If-Unmodified-Since"), h.Get("Range"),
	}
	var own []string
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+strings.Join(values, ","))
		}
	}
	slices.Sort(own)
	var asked []string
	for name, values := range req.URL.Query() {
		slices.Sort(values)
		asked = append(asked, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	slices.Sort(asked)
	lines = append(append(lines, own...), "/"+account+req.URL.EscapedPath())
	return strings.Join(append(lines, asked...), "\n")
}

func (k *sharedKey) advice() string {
	return fmt.Sprintf("check the account key in %s, the account's name, and this machine's clock", k.name)
}

func (k *sharedKey) hide(text string) string { return strings.ReplaceAll(text, k.text, hidden) }

// sas adds a shared access signature.
type sas struct {
	name    string
	query   string
	secrets []string
	expires time.Time // zero: nobody knows
	now     func() time.Time
}

func newSAS(name, given string) (*sas, error) {
	given = strings.TrimPrefix(given, "?")
	values, err := url.ParseQuery(given)
	signature := values.Get("sig")
	if err != nil || signature == "" || strings.Contains(given, "://") {
		return nil, object.Ours(fmt.Errorf("environment variable %s holds no shared access signature; it looks like "+
			"sv=...&se=...&sig=..., without the URL before it", name))
	}
	s := &sas{name: name, query: values.Encode(), now: time.Now}
	s.secrets = []string{given, s.query, signature, url.QueryEscape(signature), url.PathEscape(signature)}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if at, err := time.Parse(layout, values.Get("se")); err == nil {
			s.expires = at
		}
	}
	return s, nil
}

func (s *sas) sign(_ context.Context, _ string, req *http.Request) error {
	if !s.expires.IsZero() && s.now().After(s.expires) {
		return object.Ours(fmt.Errorf(
			"%w: the shared access signature in %s ended at %s; put a fresh one there, and restart", object.ErrDenied,
			s.name, s.expires.UTC().Format(time.RFC3339)))
	}
	if req.URL.RawQuery != "" {
		req.URL.RawQuery += "&"
	}
	req.URL.RawQuery += s.query
	return nil
}

func (s *sas) advice() string {
	return fmt.Sprintf("the shared access signature in %s is not one of this container, or is revoked, or not valid "+
		"at this time; put a fresh one there, and restart", s.name)
}

func (s *sas) hide(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}
