package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/reload"
)

// allNamespaces is the namespace of tokens that open all of them.
const allNamespaces = "*"

// minToken is the shortest token that is taken from a file.
const minToken = 16

// longWords are quoted words that may be tokens.
//
//nolint:gochecknoglobals // never changes
var longWords = regexp.MustCompile(fmt.Sprintf(`"[^"]{%d,}"`, minToken))

// tokenEntry is a token of the file.
type tokenEntry struct {
	Token     string          `yaml:"token"`
	SHA256    string          `yaml:"sha256"`
	Subject   string          `yaml:"subject"`
	Namespace string          `yaml:"namespace"`
	Roles     []identity.Role `yaml:"roles"`
}

// tokens are identities by the SHA-256 of their tokens: who finds one by its hash learns nothing from how long that
// took.
type tokens map[[sha256.Size]byte]identity.Identity

func parseTokens(path string, text []byte) (tokens, error) {
	var file struct {
		Tokens []tokenEntry `yaml:"tokens"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		// Only the message, without words that may be tokens: what surrounds the place in the file is secret.
		return nil, fmt.Errorf("tokens %s: %s", path, longWords.ReplaceAllString(yaml.FormatError(err, false, false),
			`"(secret)"`))
	}
	if file.Tokens == nil {
		return nil, fmt.Errorf("tokens %s: there is no list of tokens; one that is meant to be empty is `tokens: []`",
			path)
	}
	out := tokens{}
	for i, e := range file.Tokens {
		sum, err := e.sum()
		if err == nil {
			err = e.check()
		}
		if _, double := out[sum]; err == nil && double {
			err = errors.New("the token is an earlier one's, too")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens %s: token %d, of subject %q: %w", path, i+1, e.Subject, err)
		}
		who := identity.Identity{Namespace: e.Namespace, Subject: e.Subject, Roles: e.Roles}
		if e.Namespace == allNamespaces {
			who.Namespace, who.Everywhere = "", true
		}
		out[sum] = who
	}
	return out, nil
}

func (e tokenEntry) sum() (sum [sha256.Size]byte, err error) {
	switch {
	case (e.Token == "") == (e.SHA256 == ""):
		return sum, errors.New("want one of token and sha256 (`printf %s TOKEN | sha256sum`)")
	case e.Token != "" && len(e.Token) < minToken:
		return sum, fmt.Errorf(
			"the token has %d characters; one that nobody guesses has %d or more, such as of `openssl rand -hex 32`",
			len(e.Token), minToken)
	case e.Token != "":
		return sha256.Sum256([]byte(e.Token)), nil
	}
	raw, err := hex.DecodeString(e.SHA256)
	if err != nil || len(raw) != len(sum) {
		return sum, errors.New("sha256: want 64 hexadecimal digits, as of `printf %s TOKEN | sha256sum`")
	}
	return [sha256.Size]byte(raw), nil
}

func (e tokenEntry) check() error {
	switch {
	case e.Subject == "":
		return errors.New("subject: want a name, which becomes the owner of the sessions that the token opens")
	case e.Namespace != allNamespaces && !identity.ValidNamespace(e.Namespace):
		return fmt.Errorf("namespace: want a name of a-z, 0-9 and -, or \"*\" for all, found %q", e.Namespace)
	case len(e.Roles) == 0:
		return errors.New("roles: want some of viewer, trainer, admin, worker")
	}
	for _, r := range e.Roles {
		if !slices.Contains([]identity.Role{identity.Viewer, identity.Trainer, identity.Admin, identity.Worker}, r) {
			return fmt.Errorf("roles: want some of viewer, trainer, admin, worker, found %q", r)
		}
		if r == identity.Worker && e.Namespace != allNamespaces {
			return errors.New("roles: a worker serves all namespaces; its token needs namespace \"*\"")
		}
	}
	return nil
}

type tokenFile struct{ file *reload.File[tokens] }

// Authenticate implements identity.Authenticator.
func (t tokenFile) Authenticate(_ context.Context, token string) (identity.Identity, error) {
	if who, ok := t.file.Get()[sha256.Sum256([]byte(token))]; ok {
		return who, nil
	}
	return identity.Identity{}, identity.ErrStranger
}
