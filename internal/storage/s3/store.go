package s3

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Store describes S3.
func Store() object.Store {
	return object.Store{
		Name: "s3", Schemes: []string{"s3"}, Canonical: canonical,
		Profile: func() object.Profile { return &Profile{} },
	}
}

func canonical(uri string) (string, error) {
	bucket, key := split(uri)
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", fmt.Errorf("%s: s3:// must be followed by a bucket's name, as in s3://bucket/data/: %w", uri, err)
	}
	if key == "" {
		return Scheme + bucket + "/", nil
	}
	return uri, nil
}

// Set takes a field from the environment.
func (p *Profile) Set(field, value string) (known bool, err error) {
	texts := map[string]*string{
		"ENDPOINT":          &p.Endpoint,
		"REGION":            &p.Region,
		"CA_FILE":           &p.CAFile,
		"CREDENTIALS":       &p.Credentials,
		"AWS_PROFILE":       &p.AWSProfile,
		"ACCESS_KEY_ENV":    &p.AccessKeyEnv,
		"SECRET_KEY_ENV":    &p.SecretKeyEnv,
		"SESSION_TOKEN_ENV": &p.SessionTokenEnv,
		"REQUEST_PAYER":     &p.RequestPayer,
	}
	if text := texts[field]; text != nil {
		*text = value
		return true, nil
	}
	if field == "WRITE" {
		p.Write = strings.Split(value, ",")
		return true, nil
	}
	if field != "PATH_STYLE" {
		return false, nil
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		return true, errors.New("it must be true or false")
	}
	p.PathStyle = &b
	return true, nil
}

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) { return New(p) }
