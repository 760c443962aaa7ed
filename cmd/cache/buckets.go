package cache

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/cache/bucket"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/identity"
)

const example = "such as --bucket team-a=100GiB or --bucket shared=1TiB,team-a,team-b"

// openBuckets opens the buckets that --bucket names.
func openBuckets(dir string, named []string, n *node) (out []bucket.Bucket, err error) {
	if dir == "" || len(named) == 0 {
		return nil, errors.New("--dir and --bucket are needed: " + example)
	}
	for _, text := range named {
		b, quota, err := parseBucket(text)
		if err != nil {
			return nil, err
		}
		b.Cache, err = cache.Open(cache.Config{Dir: filepath.Join(dir, b.Name), MaxBytes: quota, Logger: n.logger})
		if err != nil {
			return nil, fmt.Errorf("--bucket %s: %w", b.Name, err)
		}
		n.caches = append(n.caches, b.Cache)
		out = append(out, b)
	}
	return out, nil
}

// parseBucket reads NAME=BYTES[,NAMESPACE...].
func parseBucket(text string) (b bucket.Bucket, quota int64, err error) {
	name, rest, _ := strings.Cut(text, "=")
	bytes, namespaces, shared := strings.Cut(rest, ",")
	var size cli.Bytes
	if err := size.Set(bytes); err != nil || size <= 0 {
		return b, 0, fmt.Errorf("--bucket: want NAME=BYTES[,NAMESPACE...], %s, found %q", example, text)
	}
	b.Name = name
	if shared {
		b.Namespaces = strings.Split(namespaces, ",")
	}
	for _, x := range append([]string{name}, b.Namespaces...) {
		if !identity.ValidNamespace(x) {
			return b, 0, fmt.Errorf("--bucket %s: a bucket's name, and a namespace's, are 1 to 63 of a-z, 0-9 and -, "+
				"and - neither first nor last; found %q", text, x)
		}
	}
	return b, int64(size), nil
}
