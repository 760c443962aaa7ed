package s3

import (
	"fmt"

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

// Open returns a client.
func (p *Profile) Open() (object.Backend, error) { return New(p) }
