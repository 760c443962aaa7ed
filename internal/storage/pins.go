package storage

import (
	"context"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Unversioned is a canonical URI without the version that it names, if its store has such: what may be read does not
// depend on it.
func Unversioned(uri string) string {
	if store, err := storeOf(uri); err == nil && store.Unversioned != nil {
		return store.Unversioned(uri)
	}
	return uri
}

// pins are the versions that the URIs of one listing stand for, by what the URIs begin with: all of them have the same.
type pins map[string]string

// pin returns a URI of the version that a URI stands for, if its store has such.
func (p pins) pin(ctx context.Context, b retrying, uri string) (string, error) {
	v, ok := b.next.(object.Versioned)
	if !ok {
		return uri, nil
	}
	root, err := v.Root(uri)
	if err != nil {
		return uri, err
	}
	pinned, known := p[root]
	if !known {
		err = b.retry(ctx, b.cfg.AttemptTimeout, func(ctx context.Context, _ func(bool)) (err error) {
			pinned, err = v.Pin(ctx, root)
			return err
		})
		if err != nil {
			return uri, err
		}
		p[root] = pinned
	}
	return pinned + strings.TrimPrefix(uri, root), nil
}
