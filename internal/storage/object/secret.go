package object

import (
	"errors"
	"fmt"
	"regexp"
)

// ErrSecret says that a URI holds what gives access. Errors that wrap it do not repeat the URI, which would reach logs.
var ErrSecret = errors.New("it may be signed, or hold a token, and URIs reach etcd and logs; name the file without " +
	"what follows its ?, and give the storage profile credentials of its own")

// Secret is an ErrSecret in words of its own.
func Secret(format string, args ...any) error { return secretError(fmt.Sprintf(format, args...)) }

type secretError string

func (e secretError) Error() string { return string(e) }

// Is makes it an ErrSecret.
func (secretError) Is(target error) bool { return target == ErrSecret }

// secrets are the parameters that sign a URL (of S3, CloudFront, GCS and Azure), or give access in another way.
var secrets = regexp.MustCompile(`(?i)(\?|%3f|&|%26|;)(x-(amz|goog)-(signature|security-token|credential)|` +
	`signature|sig|awsaccesskeyid|googleaccessid|key-pair-id|[a-z_-]*token|api[_-]?key|[a-z_-]*secret|password)=`)

// HoldsSecret reports whether a URI is signed, or bears a token.
func HoldsSecret(uri string) bool { return secrets.MatchString(uri) }
