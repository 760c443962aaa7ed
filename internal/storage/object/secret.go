package object

import (
	"errors"
	"fmt"
	"regexp"
)

// ErrSecret says that a URI holds what gives access. Errors that wrap it do not repeat the URI, which would reach logs.
var ErrSecret = errors.New("it may be signed, or hold a token, and URIs reach etcd and logs; name the file without " +
	"what follows its ?, and give the storage profile credentials of its own")

// Secret marks an error about a URI that holds what gives access, for errors.Is(err, ErrSecret).
func Secret(err error) error { return secret{err} }

type secret struct{ error }

func (s secret) Unwrap() error { return s.error }

func (s secret) Is(target error) bool { return target == ErrSecret }

// Unset is the error of a profile's field that names an environment variable which is not set. It does not repeat the
// name: some write the secret itself there.
func Unset(field string) error {
	return fmt.Errorf("the environment variable that the profile's %s names is not set; set it, or correct its name",
		field)
}

// secrets are the parameters that sign a URL (of S3, CloudFront, GCS and Azure), or give access in another way.
var secrets = regexp.MustCompile(`(?i)(\?|%3f|&|%26|;)(x-(amz|goog)-(signature|security-token|credential)|` +
	`signature|sig|awsaccesskeyid|googleaccessid|key-pair-id|[a-z_-]*token|api[_-]?key|[a-z_-]*secret|password)=`)

// HoldsSecret reports whether a URI is signed, or bears a token.
func HoldsSecret(uri string) bool { return secrets.MatchString(uri) }
