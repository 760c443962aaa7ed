package object

import (
	"errors"
	"regexp"
)

// ErrSecret says that a URI holds what gives access. Errors that wrap it do not repeat the URI, which would reach logs.
var ErrSecret = errors.New("it may be signed, or hold a token, and URIs reach etcd and logs; name the file without " +
	"what follows its ?, and give the storage profile credentials of its own")

// secrets are the parameters that sign a URL (of S3, CloudFront, GCS and Azure), or give access in another way.
var secrets = regexp.MustCompile(`(?i)(\?|%3f|&|%26|;)(x-(amz|goog)-(signature|security-token|credential)|` +
	`signature|sig|awsaccesskeyid|googleaccessid|key-pair-id|[a-z_-]*token|api[_-]?key|[a-z_-]*secret|password)=`)

// HoldsSecret reports whether a URI is signed, or bears a token.
func HoldsSecret(uri string) bool { return secrets.MatchString(uri) }
