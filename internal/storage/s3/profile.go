package s3

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
)

// Where a profile's credentials come from.
const (
	// FromAWS, the default, looks where AWS's own tools do: environment, shared files, web identity, container
	// and instance roles. They are renewed before they end.
	FromAWS = "aws"
	// FromEnv reads them from the environment variables that the profile names.
	FromEnv = "env"
	// Anonymous signs nothing.
	Anonymous = "anonymous"
)

// Profile says how to reach an S3 service. It holds no secrets.
type Profile struct {
	// Type is what chose this store: "s3" or nothing.
	Type string `yaml:"type"`
	// Endpoint is the service's URL ("https://minio.example:9000"); without a scheme it is https. Empty: that of
	// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or AWS itself.
	Endpoint string `yaml:"endpoint"`
	// Region, or empty: AWS_REGION, AWS_DEFAULT_REGION, or found out bucket by bucket.
	Region string `yaml:"region"`
	// CAFile holds certificates (PEM) that are trusted besides the system's.
	CAFile string `yaml:"ca_file"`
	// PathStyle puts the bucket into the path (true) or the host name (false). Unset: the host name on AWS only.
	PathStyle *bool `yaml:"path_style"`
	// Credentials is FromAWS, FromEnv or Anonymous. Empty: FromEnv if AccessKeyEnv is set, else FromAWS.
	Credentials string `yaml:"credentials"`
	// AWSProfile is the profile of the shared files to use, and nothing else; only with FromAWS.
	AWSProfile string `yaml:"aws_profile"`
	// Names of the environment variables with the credentials; only with FromEnv.
	AccessKeyEnv    string `yaml:"access_key_env"`
	SecretKeyEnv    string `yaml:"secret_key_env"`
	SessionTokenEnv string `yaml:"session_token_env"`
	// RequestPayer is "requester" for buckets whose owners have their readers pay.
	RequestPayer string `yaml:"request_payer"`
	// Write lists folders (s3://bucket/derived/) below which new files may be written; none if empty.
	Write []string `yaml:"write"`
}

// WritePrefixes are the folders below which new files may be begun.
func (p *Profile) WritePrefixes() []string { return p.Write }

// source is Credentials with its default.
func (p *Profile) source() string {
	switch {
	case p.Credentials != "":
		return p.Credentials
	case p.AccessKeyEnv != "":
		return FromEnv
	}
	return FromAWS
}

// Validate finds mistakes that can be seen without connecting.
func (p *Profile) Validate() error {
	switch p.source() {
	case FromAWS, Anonymous:
		if p.AccessKeyEnv != "" || p.SecretKeyEnv != "" || p.SessionTokenEnv != "" {
			return fmt.Errorf("access_key_env and the like go with credentials: env, not %s", p.source())
		}
	case FromEnv:
		if p.AccessKeyEnv == "" || p.SecretKeyEnv == "" {
			return errors.New(
				"credentials: env needs access_key_env and secret_key_env, the names of environment variables")
		}
	default:
		return errors.New("unknown kind of credentials; use aws, env or anonymous")
	}
	if p.AWSProfile != "" && p.source() != FromAWS {
		return fmt.Errorf("aws_profile goes with credentials: aws, not %s", p.source())
	}
	switch {
	case p.RequestPayer != "" && p.RequestPayer != "requester":
		return errors.New("request_payer must be requester, or unset")
	case p.RequestPayer != "" && p.source() == Anonymous:
		return errors.New("request_payer needs credentials: nobody pays for anonymous requests")
	}
	for _, prefix := range p.Write {
		_, err := canonical(prefix)
		if err != nil || !strings.HasPrefix(prefix, Scheme) || strings.ContainsAny(prefix, "*?[") {
			return fmt.Errorf("write: %s is no folder; list such as s3://bucket/derived/", prefix)
		}
	}
	_, err := p.endpoint()
	return err
}

// endpoint returns the service's URL; its host is empty for AWS.
func (p *Profile) endpoint() (*url.URL, error) {
	given := firstSet(p.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if given == "" {
		return &url.URL{Scheme: "https"}, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		u, err = url.Parse("https://" + given)
	}
	// The endpoint is not repeated in messages: some write credentials into it.
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the endpoint is not a URL; write https://host:port")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the endpoint's scheme must be http or https")
	case u.User != nil:
		return nil, errors.New(
			"the endpoint holds credentials; take them out and use access_key_env and secret_key_env")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return nil, errors.New("the endpoint must have no path; write https://host:port")
	}
	return u, nil
}

func (p *Profile) region(custom bool) string {
	region := firstSet(p.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" && custom {
		return "us-east-1" // what services other than AWS take
	}
	return region
}

func (p *Profile) lookup() minio.BucketLookupType {
	switch {
	case p.PathStyle == nil:
		return minio.BucketLookupAuto
	case *p.PathStyle:
		return minio.BucketLookupPath
	}
	return minio.BucketLookupDNS
}

func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
