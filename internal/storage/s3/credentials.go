package s3

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

var errNoCredentials = errors.New("no AWS credentials found")

// credentials returns the profile's credentials, which renew themselves.
func (p Profile) credentials() (*credentials.Credentials, error) {
	switch p.source() {
	case Anonymous:
		return credentials.NewStatic("", "", "", credentials.SignatureAnonymous), nil
	case FromEnv:
		access, secret := os.Getenv(p.AccessKeyEnv), os.Getenv(p.SecretKeyEnv)
		for name, value := range map[string]string{p.AccessKeyEnv: access, p.SecretKeyEnv: secret} {
			if value == "" {
				return nil, fmt.Errorf("environment variable %s, which the profile names, is not set", name)
			}
		}
		token := ""
		if p.SessionTokenEnv != "" {
			token = os.Getenv(p.SessionTokenEnv)
		}
		return credentials.NewStaticV4(access, secret, token), nil
	}
	shared := &credentials.FileAWSCredentials{Profile: p.AWSProfile}
	if p.AWSProfile != "" {
		return credentials.New(&chain{providers: []named{{"profile " + p.AWSProfile + " of the shared files", shared}}}), nil
	}
	c := &chain{providers: []named{{"environment", &credentials.EnvAWS{}}, {"shared files", shared}}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" || hasRole() {
		client := &http.Client{Timeout: 5 * time.Second}
		c.providers = append(c.providers, named{"role", &credentials.IAM{Client: client, Region: p.Region}})
	}
	return credentials.New(c), nil
}

// hasRole reports whether the environment names a web identity or a container's role.
func hasRole() bool {
	return firstSet(os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")) != ""
}

type named struct {
	name string
	credentials.Provider
}

// chain asks providers in turn and stays with the first that has credentials. Unlike minio-go's it fails if none
// has: requests without a signature would only be refused, with a message that misleads. Credentials serialises
// the calls.
type chain struct {
	providers []named
	current   credentials.Provider
}

func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var why []string // as text: a shared file that is missing is no file of the dataset that is gone
	for _, p := range c.providers {
		v, err := p.RetrieveWithCredContext(cc)
		switch {
		case err != nil:
			why = append(why, fmt.Sprintf("%s: %v", p.name, err))
		case v.AccessKeyID == "" || v.SecretAccessKey == "":
			why = append(why, p.name+": none")
		default:
			c.current = p
			return v, nil
		}
	}
	err := object.Ours(fmt.Errorf("%w; set them up or use a profile with credentials: anonymous: %s", errNoCredentials, strings.Join(why, "; ")))
	if c.current != nil || hasRole() {
		return credentials.Value{}, object.Transient(err) // the service that renews them may come back
	}
	return credentials.Value{}, err
}

func (c *chain) IsExpired() bool { return c.current == nil || c.current.IsExpired() }
