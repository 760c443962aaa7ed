package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Token is where a token is: in an environment variable, or in a file, which is read at each request. The zero value is
// none.
type Token struct {
	Env, File string
	// Optional: the file need not be there.
	Optional bool
	// Header is sent the token; empty: Authorization, behind "Bearer".
	Header string
}

// Headers are those with the token.
func (t Token) Headers() (http.Header, error) {
	if t.Env == "" && t.File == "" {
		return nil, nil
	}
	token := os.Getenv(t.Env)
	if t.File != "" {
		text, err := os.ReadFile(t.File)
		switch {
		case t.Optional && errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil: // as text: it is no file of the dataset that is gone
			return nil, object.Ours(fmt.Errorf("token_file: %v", err)) //nolint:errorlint // see above
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token == "" {
		return nil, object.Ours(errors.New("the token that the storage profile names is empty; renew it"))
	}
	if t.Header != "" {
		return http.Header{t.Header: {token}}, nil
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

// Explain has a refused token tried again that may be renewed meanwhile.
func (t Token) Explain(err error) error {
	var refused *StatusError
	if t.File != "" && !t.Optional && errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		return object.Transient(object.Ours(err))
	}
	return err
}
