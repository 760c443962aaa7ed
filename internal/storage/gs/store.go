package gs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Store describes Google Cloud Storage.
func Store() object.Store {
	return object.Store{
		Name: "gs", Schemes: []string{"gs"}, Canonical: canonical,
		Profile: func() object.Profile { return &Profile{} },
	}
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func canonical(uri string) (string, error) {
	bucket, key := split(uri)
	if !bucketName.MatchString(bucket) {
		return "", fmt.Errorf("%s: gs:// must be followed by a bucket's name, of lower-case letters, digits, -, _ "+
			"and ., as in gs://bucket/data/", uri)
	}
	switch key {
	case "":
		return Scheme + bucket + "/", nil
	case ".", "..": // which are no names there, and would lead to the bucket itself
		return "", fmt.Errorf("%s: gs:// has no objects named . and ..; correct the URI", uri)
	}
	return uri, nil
}

// baseName is what follows the last "/".
func baseName(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) { return New(p) }
